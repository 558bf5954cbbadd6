"""The loss is divided by the number of ranks, which DistributedDataParallel does already.

## What it does
Looks for `(loss / world_size).backward()` with a wrapped model.

## Why is this bad
DDP averages gradients over the ranks. Divided again, they are N times too small, like a learning
rate divided by N.

## Example
```python
for x, y in loader:
    loss = criterion(model(x), y)
    (loss / world_size).backward()
```

## Use instead
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
```

## Also fine
A copy for the log.
```python
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    shown = loss.detach() / world_size
    dist.all_reduce(shown)
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.reaching_definitions import reaching_definition
from ddpify.understanding.taint.sources import WORLD


@rule(
    "double-averaging",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Losses over the number of ranks."""
    if not script.wraps:
        return
    for node, (_, loss) in script.facts.backwards.items():
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        if any(d.placement is Placement.SUM for d in loss.data):
            continue
        for division in _divisions(script, _unscaled(script, node.func.value)):
            if script.owners.get(division) is not script.module:
                continue
            if not _is_world_size(script, division.right):
                continue
            text = code_of(division.left)
            yield Finding(
                division,
                "DDP averages over the ranks already: gradients are N times too small",
                script.replace(division, text, "do not divide", Applicability.UNSAFE),
            )


def _divisions(
    script: Script, loss: cst.BaseExpression, further: int = 6
) -> Iterator[cst.BinaryOperation]:
    """The quotients that a loss is made of: ``scaler(loss / steps)`` of one that is a quotient."""
    if isinstance(loss, cst.BinaryOperation) and isinstance(loss.operator, cst.Divide):
        yield loss
        yield from _divisions(script, loss.left, further)
    elif isinstance(loss, cst.Name) and further:
        for made in _last_values(script, loss):
            yield from _divisions(script, made, further - 1)


def _last_values(script: Script, loss: cst.Name) -> list[cst.BaseExpression]:
    """What a name was surely last set to before it is read, or what calls give a parameter."""
    module, structure = script.owners[loss], script.structure_of(loss)
    edges = script.flow.edges_into(script.flow.locations(loss, module))
    own = [edge for edge in edges if not edge.passes]
    last = reaching_definition(structure, loss, [edge.node for edge in own])
    if isinstance(last, cst.Assign):
        return [edge.value for edge in own if edge.node is last and edge.value is not None][:1]
    given = [edge.value for edge in edges if edge.passes and edge.value is not None]
    return given if not own else []


def _unscaled(script: Script, loss: cst.BaseExpression) -> cst.BaseExpression:
    """``loss`` of ``scaler.scale(loss)``."""
    if not isinstance(loss, cst.Call) or not isinstance(loss.func, cst.Attribute):
        return loss
    scaler = [str(one.type) for one in script.instances(loss.func.value)]
    scales = loss.func.attr.value == "scale" and any(x.endswith("GradScaler") for x in scaler)
    return loss.args[0].value if scales and loss.args else loss


def _is_world_size(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is the number of ranks, not something divided by it."""
    if WORLD not in script.labels(node):
        return False
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Call)):
        return False
    own = set(walk(node))
    sources = [one.node for one in script.flow.ancestry(node, script.module)]
    return not any(_divides(script, one) for one in sources if one is not None and one not in own)


def _divides(script: Script, node: cst.CSTNode) -> bool:
    """Whether a name that goes into a value is divided, or divides, on the way."""
    above = script.structure_of(node).up(node)
    return any(
        isinstance(one, cst.BinaryOperation)
        and isinstance(one.operator, (cst.Divide, cst.FloorDivide, cst.Modulo))
        for one in above
        if isinstance(one, cst.BaseExpression)
    )
