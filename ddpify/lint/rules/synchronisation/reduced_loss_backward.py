"""The loss is reduced in place before its backward pass.

## What it does
Looks for `dist.all_reduce(loss)` before `loss.backward()`.

## Why is this bad
The collective writes into the tensor that the graph belongs to: the gradient is scaled, and DDP
averages it again.

## Example
```python
for x, y in loader:
    loss = criterion(model(x), y)
    dist.all_reduce(loss)
    loss.backward()
```

## Use instead
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        shown = loss.detach().clone()
        dist.all_reduce(shown)
```

## Also fine
```python
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    dist.all_reduce(loss)
```

## References
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.reaching_definitions import reaching_definition

_SCALED = "reduced in place before its backward: gradients are scaled"
_REDUCTIONS = ("torch.distributed.all_reduce", "torch.distributed.reduce")
_WITHOUT_GRAPH = frozenset({"detach", "data", "item", "no_grad", "inference_mode"})


@rule(
    "reduced-loss-backward",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """In-place reductions between a loss and its backward."""
    yield from _by_helpers(script)
    structure = script.structure
    for call in script.calls(*_REDUCTIONS):
        given = call.args[0].value if call.args else None
        if not isinstance(given, cst.Name):
            continue
        block = structure.parents.get(structure.statement(call))
        for node in script.facts.backwards:
            if not _is_of(node, given) or script.owners.get(node) is not script.module:
                continue
            same = structure.parents.get(structure.statement(node)) is block
            if (
                same
                and structure.order[call] < structure.order[node]
                and not _set_again(script, given, call, node)
            ):
                yield Finding(call, _SCALED)
                break


def _by_helpers(script: Script) -> Iterator[Finding]:
    """``loss = reduce_mean(loss)`` before ``loss.backward()``."""
    for node in script.facts.backwards:
        if script.owners.get(node) is not script.module or not isinstance(node, cst.Call):
            continue
        loss = node.func.value if isinstance(node.func, cst.Attribute) else None
        if not isinstance(loss, cst.Name):
            continue
        edges = script.flow.edges_into(script.control.locations(loss))
        last = reaching_definition(script.structure, loss, [edge.node for edge in edges])
        for edge in edges:
            if edge.node is not last or not isinstance(edge.value, cst.Call):
                continue
            if any(_gives_reduced(script, one.node) for one in called(script.facts, edge.value)):
                yield Finding(edge.value, _SCALED)


def _gives_reduced(script: Script, function: cst.FunctionDef | cst.Lambda) -> bool:
    """Whether a function returns what it has reduced in place, with the graph behind it."""
    nodes = [*walk(function.body)]
    if any(isinstance(one, cst.Attribute) and one.attr.value in _WITHOUT_GRAPH for one in nodes):
        return False
    reduced = {
        given.value
        for one in nodes
        if isinstance(one, cst.Call) and script.names(one.func) & {*_REDUCTIONS} and one.args
        for given in (one.args[0].value,)
        if isinstance(given, cst.Name)
    }
    return any(
        isinstance(name, cst.Name) and name.value in reduced
        for one in nodes
        if isinstance(one, cst.Return) and one.value is not None
        for name in walk(one.value)
    )


def _is_of(node: cst.CSTNode, name: cst.Name) -> bool:
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and isinstance(node.func.value, cst.Name)
        and node.func.value.value == name.value
    )


def _set_again(script: Script, name: cst.Name, first: cst.CSTNode, last: cst.CSTNode) -> bool:
    """Whether the name gets a value of its own in between."""
    order = script.structure.order
    return any(
        order[first] < order[assign] < order[last]
        and isinstance(assign.targets[0].target, cst.Name)
        and assign.targets[0].target.value == name.value
        for assign in script.structure.all(cst.Assign)
    )
