"""The loss is a sum, of which DistributedDataParallel takes the mean over ranks.

## What it does
Looks for `backward()` on a loss that sums over the samples of a batch (`reduction="sum"`,
`.sum()`).

## Why is this bad
DDP divides the sum of the gradients by the number of ranks. A mean over samples is then right; a
sum comes out N times too small, which acts like a learning rate divided by N.

## Example
```python
for x, y in loader:
    loss = F.cross_entropy(model(x), y, reduction="sum")
    loss.backward()
    optimizer.step()
```

## Use instead
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y, reduction="sum")
        (loss * world_size).backward()
        optimizer.step()
```

## Also fine
A sum that is divided by the number of samples.
```python
for x, y in loader:
    loss = F.cross_entropy(model(x), y, reduction="sum") / len(x)
    loss.backward()
    optimizer.step()
```

## When not to follow it
With an optimizer that divides gradients by their size, as Adam does, the factor is lost; without
`--strict`, only SGD and the like are spoken of.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.partial_reads import reduce_part
from ddpify.lint.scripts.rates import rate_knows_ranks
from ddpify.lint.scripts.repairs import runtime
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import REDUCING
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, divisor
from ddpify.understanding.taint.sources import SANITIZED, WORLD
from ddpify.understanding.values import Instance

_TAKING = ("torch.optim.SGD", "torch.optim.ASGD", "torch.optim.LBFGS")
_CONVERSIONS = frozenset({"builtins.int", "builtins.float", "builtins.len"})


@rule(
    "sum-or-token-normalised-loss",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Backward passes from sums over the batch."""
    for node, (site, loss) in script.facts.backwards.items():
        if site.module is not script.module or not isinstance(node, cst.Call):
            continue
        placements = {data.placement for data in loss.data if not data.opaque}
        if placements != {Placement.SUM} or not isinstance(node.func, cst.Attribute):
            continue
        if script.has_runtime:
            yield from _in_parts(script, node)
        elif not script.averages or _is_scaled(script, node.func.value):
            continue
        elif script.strict or (
            not any(data.opaque for data in loss.data)
            and _surely_sums(script, node.func.value)
            and not rate_knows_ranks(script)
            and _keeps_the_factor(script)
        ):
            yield Finding(
                node,
                "the loss sums over the batch, and DDP averages over ranks: gradients are divided"
                " by the number of ranks",
            )


def _keeps_the_factor(script: Script) -> bool:
    """Whether an optimizer is known to take gradients as they are.

    Most others divide gradients by their size: what they are divided by before is lost.
    """
    return any(one.type in _TAKING for one in script.facts.optimizers)


def _in_parts(script: Script, backward: cst.Call) -> Iterator[Finding]:
    dd = runtime(script) or "dd"
    for part in script.parts:
        if part.is_loss and part.node is getattr(backward.func, "value", None):
            yield Finding(
                backward,
                "the loss sums over this rank's part of the batch, and gradients are averaged:"
                f" {dd}.sum() adds it up",
                reduce_part(script.control, part),
            )


def _is_scaled(script: Script, loss: cst.BaseExpression) -> bool:
    """Whether the number of ranks goes into the loss, or a collective counts what it divides by."""
    if WORLD in script.flow.sources(loss, script.module):
        return True
    made = list(script.flow.ancestry(loss, script.module))
    counted = {
        location
        for call in script.calls(*REDUCING, everywhere=True)
        for given in call.args
        for location in script.flow.locations(given.value, script.owners[call])
    }
    return any(one.label == SANITIZED or one.location in counted for one in made)


def _surely_sums(script: Script, loss: cst.BaseExpression) -> bool:
    """Whether a wrapped model goes into a loss, and no weights, which may sum up to one, do.

    Nor is it divided by anything but numbers: that may be how many terms it has.
    """
    made = list(_made_of(script, loss))
    calls = [one.func for one in made if isinstance(one, cst.Call)]
    wrapped = script.has_fsdp or any(map(script.may_be_wrapped, calls))
    return wrapped and not any(_sums_products(script, one) or _divides(script, one) for one in made)


def _made_of(script: Script, loss: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """The nodes that a loss is computed from, where a graph is recorded."""
    yield from walk(loss)
    todo = list(script.flow.locations(loss, script.module))
    seen = set(todo)
    while todo:
        for edge in script.flow.edges_into({todo.pop()}):
            if edge.value is None or script.control.without_grad(edge.node):
                continue
            yield edge.node
            yield from walk(edge.value)
            made = dict.fromkeys(one.location for one in edge.source if one.location is not None)
            todo += [one for one in made if one not in seen]
            seen.update(made)


def _divides(script: Script, node: cst.CSTNode) -> bool:
    """``x / n``, ``x /= n``, ``x.div(n)``, of anything but a number that no data makes."""
    by = divisor(node)
    return by is not None and any(_computes(script, one) for one in _made_of(script, by))


def _computes(script: Script, node: cst.CSTNode) -> bool:
    """Whether a call may give a number of the data: not one that converts or reads options."""
    if not isinstance(node, cst.Call) or script.names(node.func) & _CONVERSIONS:
        return False
    held = script.value(node).atoms
    return not held or not all(isinstance(one, Instance) for one in held)


def _sums_products(script: Script, node: cst.CSTNode) -> bool:
    """``torch.sum(loss * weights)``, ``(loss * weights).sum()``."""
    if not isinstance(node, cst.Call):
        return False
    summed: cst.BaseExpression | None = None
    if "torch.sum" in script.names(node.func) and node.args:
        summed = node.args[0].value
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "sum":
        summed = node.func.value
    return (
        isinstance(summed, cst.BinaryOperation)
        and isinstance(summed.operator, cst.Multiply)
        and not isinstance(summed.left, (cst.Integer, cst.Float))
        and not isinstance(summed.right, (cst.Integer, cst.Float))
        and code_of(summed.left) != code_of(summed.right)
    )
