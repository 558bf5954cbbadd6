"""Only some ranks update what all must keep equal.

## What it does
Looks for `optimizer.step()`, `scaler.step(optimizer)`, `zero_grad()`, `scheduler.step()` and
`scaler.update()` under a condition on the rank, also in a function that only some ranks call, for
rates that only some ranks write into the optimizer's groups, and for gradients that only some clip.

## Why is this bad
The ranks' parameters, learning rates or loss scales become different: they average gradients of
different models, without an error.

## Example
```python
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    if rank == 0:
        schedule.step()
```

```python
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    if rank == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
```

```python
def decay(epoch):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * 0.9**epoch

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    if rank == 0:
        decay(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

## Use instead
```python
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    schedule.step()
```

## Also fine
An average of the weights that only rank 0 keeps, for its evaluation.
```python
average = torch.optim.swa_utils.AveragedModel(net)
if rank == 0:
    average.update_parameters(net)
```

## References
https://docs.pytorch.org/docs/stable/notes/ddp.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.hand_averages import steps_together
from ddpify.lint.scripts.rates import is_rate
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.updates import updated

_UPDATES = ("step", "zero_grad", "update")
_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")


@rule(
    "rank-conditional-update",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Updates that not all ranks make."""
    backwards = [node for node in script.facts.backwards if node in script.owners]
    if backwards and all(map(script.control.on_some_ranks, backwards)):
        return  # the others do not train at all, so that the wrapper waits for them
    updates: dict[cst.CSTNode, set[str]] = {
        **{call: updated(script, call) for call in script.method_calls(*_UPDATES)},
        **{call: {"gradients"} for call in script.calls(*_CLIPS)},
        **{place: {"learning rate"} for place in _rates_of_some(script)},
    }
    for node, kinds in updates.items():
        if not kinds or not steps_together(script) or not _is_left_out(script, node):
            continue
        if _both_branches(script, node):
            continue
        yield Finding(
            node,
            f"only some ranks update the {min(kinds)}: the ranks' models drift apart",
        )


def _rates_of_some(script: Script) -> Iterator[cst.CSTNode]:
    """What only some ranks reach of the lines that write a rate into a group of an optimizer: such
    a line, or the call that leads to it.
    """
    for assign in script.once(_written_rates):
        if script.control.on_some_ranks(assign):
            yield from _guarded(script, assign, set())


def _written_rates(script: Script) -> list[cst.Assign | cst.AugAssign]:
    """The lines of the run that write a rate into a group of an optimizer."""
    return [
        assign
        for structure in script.structures.values()
        for assign in structure.all(cst.Assign, cst.AugAssign)
        if any(is_rate(script, one) for one in _targets(assign))
    ]


def _targets(assign: cst.Assign | cst.AugAssign) -> list[cst.BaseExpression]:
    if isinstance(assign, cst.AugAssign):
        return [assign.target]
    return [one.target for one in assign.targets]


def _guarded(script: Script, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The places in this file, on the ways to a node, that stand under a condition on the rank."""
    if script.control.rank_guards(node):
        if node in script.structure.order:
            yield node
        return
    function = script.structure_of(node).function(node)
    if function is not None and function not in seen:
        seen.add(function)
        for site in script.control.callers(function):
            yield from _guarded(script, site.node, seen)


def _is_left_out(script: Script, node: cst.CSTNode) -> bool:
    """Whether some ranks do not reach a node, here or where its function is called.

    What a function of rank 0 makes for itself, as a probe, is no other rank's.
    """
    if script.control.rank_guards(node):
        return True
    made = []
    if isinstance(node, cst.Call):
        owner = node.func.value if isinstance(node.func, cst.Attribute) else node.func
        made = [one.site for one in script.instances(owner)]
    return script.control.on_some_ranks(node) and not any(map(script.control.on_some_ranks, made))


def _both_branches(script: Script, node: cst.CSTNode) -> bool:
    """Whether the other ranks do the same in their branch."""
    text = script.code(node, 500)
    for guard in script.control.rank_guards(node):
        if isinstance(guard.statement, cst.If):
            other = guard.statement.orelse if guard.positive else guard.statement.body
            calls = script.structure.inside(other, type(node)) if other is not None else ()
            if any(script.code(one, 500) == text for one in calls):
                return True
    return False
