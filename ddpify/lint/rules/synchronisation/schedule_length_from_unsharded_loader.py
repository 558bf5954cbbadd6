"""The length of a schedule is that of one process.

## What it does
Looks for `total_steps`, `T_max` and `steps_per_epoch` computed from `len(dataset)` when the loop
that steps the schedule goes over a loader that is split among the ranks.

## Why is this bad
A rank makes an Nth of these steps: warm-up takes N times too long and the rate never comes down,
or OneCycleLR's peak is never reached.

## Example
```python
steps = epochs * len(dataset) // 32
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    schedule.step()
```

## Use instead
```python
steps = epochs * len(loader)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    schedule.step()
```

## Also fine
```python
steps = epochs * len(dataset) // (32 * world_size)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
for x, y in loader:
    criterion(model(x), y).backward()
    schedule.step()
```

## References
https://github.com/huggingface/accelerate/issues/2926
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import LENGTH, WORLD
from ddpify.understanding.values import UNKNOWN

_SCHEDULES = ("torch.optim.lr_scheduler.",)
_LENGTHS = ("total_steps", "steps_per_epoch", "T_max", "T_0", "total_iters", "num_training_steps")


@rule(
    "schedule-length-from-unsharded-loader",
    group="synchronisation",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Schedules whose length counts all of the data."""
    if script.has_runtime:
        return  # it takes the steps of one process
    for call in script.calls(*_SCHEDULES):
        for one in script.arguments(call, *_LENGTHS):
            if _counts_everything(script, one.value) and _stepped_per_batch(script, call):
                yield Finding(
                    one,
                    f"{script.code(one.value, 40)} counts the steps of one process; with N ranks"
                    " each makes an Nth of them",
                )


def _counts_everything(script: Script, node: cst.BaseExpression) -> bool:
    if WORLD in script.flow.sources(node, script.module):
        return False
    return any(_is_data(script, one) for one in _deep(script, node))


def _deep(script: Script, node: cst.BaseExpression) -> Iterator[Dependency]:
    """All that an expression is made from, through names."""
    todo, seen = list(script.flow.made_of.of(node, script.module)), set[Location]()
    while todo:
        one = todo.pop()
        yield one
        if one.location is not None and one.location not in seen:
            seen.add(one.location)
            todo += [d for m in script.flow.edges if one.location in m.targets for d in m.source]


def _is_data(script: Script, one: Dependency) -> bool:
    """``len()`` of the data set of a loader that is split."""
    if one.label != LENGTH or one.node is None:
        return False
    held = script.value(one.node).atoms
    sharded = [x for x in script.training_loaders if script.is_sharded(x)]
    if isinstance(one.node, cst.Attribute) and one.node.attr.value == "dataset":
        return any(loader in sharded for loader in script.loaders_in(one.node.value))
    return any(a in x.arguments.get("dataset", UNKNOWN).atoms for x in sharded for a in held)


def _stepped_per_batch(script: Script, call: cst.Call) -> bool:
    """Whether the schedule is stepped inside a loop over a loader that is split."""
    made = set(script.instances(call))
    for step in script.method_calls("step", everywhere=True):
        assert isinstance(step.func, cst.Attribute)
        if made & set(script.instances(step.func.value)):
            for loop in script.structure_of(step).loops(step):
                if isinstance(loop, cst.For) and any(
                    map(script.is_sharded, script.loaders_in(loop.iter))
                ):
                    return True
    return False
