"""The length of a schedule is that of one process.

## What it does
Looks for schedules whose length is computed from `len(dataset)`, or from a loader of all of the
data, when the loop that steps them goes over a loader that is split among the ranks. A rate that
is written into the optimizer's groups by hand is such a schedule, too.

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

```python
total = epochs * len(dataset) // 32
for i, (x, y) in enumerate(loader):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * (1 - i / total)
    criterion(model(x), y).backward()
    optimizer.step()
```

```python
batch = 256 // world_size
mine = DataLoader(dataset, batch, sampler=sampler)
steps = epochs * (len(dataset) // batch)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
for x, y in mine:
    criterion(model(x), y).backward()
    optimizer.step()
    schedule.step()
```

```python
class Linear(torch.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer, steps):
        self.steps = steps
        super().__init__(optimizer)

    def get_lr(self):
        return [rate * (1 - self.last_epoch / self.steps) for rate in self.base_lrs]

schedule = Linear(optimizer, epochs * len(dataset) // 32)
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
from ddpify.lint.scripts.rates import is_rate
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.whole_lengths import WholeLengths
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.values import Class, Function, Instance

_SCHEDULES = ("torch.optim.lr_scheduler.",)
_OF_PACKAGES = ("transformers.", "diffusers.optimization.", "timm.scheduler.")


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
    reported: set[cst.CSTNode] = set()
    for place, counted in script.once(_whole_lengths):
        here = place is not None and script.owners.get(place.value) is script.module
        at = place if here and place is not None else counted
        if (here or script.owners.get(at) is script.module) and at not in reported:
            reported.add(at)
            yield Finding(
                at,
                f"{script.code(at, 40)} counts the steps of one process; with N ranks"
                " each makes an Nth of them",
            )


def _whole_lengths(script: Script) -> list[tuple[cst.Arg | None, cst.BaseExpression]]:
    """What counts all of the data in the length of a schedule, with the argument of its call."""
    lengths = WholeLengths(script)
    return [(at, one) for at, told in _schedules(script) for one in lengths.within(told)]


def _schedules(script: Script) -> Iterator[tuple[cst.Arg | None, cst.BaseExpression]]:
    """What tells a schedule of batches how long it is, with the argument of a package's call."""
    known = script.calls(*_SCHEDULES, *_OF_PACKAGES, everywhere=True)
    for call in dict.fromkeys([*known, *_own_schedules(script)]):
        if (call not in known or _is_schedule(script, call)) and _stepped_per_batch(script, call):
            for given in call.args:
                for told in _read(script, given.value):
                    yield (given if told is given.value else None), told
    for structure in script.structures.values():
        for value in _rates(script, structure):
            if _is_in_batches(script, value):
                yield None, value


def _own_schedules(script: Script) -> Iterator[cst.Call]:
    """Calls that make a schedule of a class of the project."""
    for structure in script.structures.values():
        for call in structure.all(cst.Call):
            if any(one.site is call and _is_own_schedule(one) for one in script.instances(call)):
                yield call


def _is_own_schedule(one: Instance) -> bool:
    return isinstance(one.type, Class) and any(
        name.startswith(_SCHEDULES) for name in one.type.library_bases()
    )


def _is_schedule(script: Script, call: cst.Call) -> bool:
    names = script.names(call.func)
    return any(name.startswith(_SCHEDULES) or "schedule" in name.lower() for name in names)


def _read(script: Script, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """An argument; of a function that gives a factor for a step, what it returns."""
    functions = [one.node for one in script.value(node).atoms if isinstance(one, Function)]
    if isinstance(node, cst.Lambda):
        functions = [node]
    for one in functions:
        if isinstance(one, cst.Lambda):
            yield one.body
        else:
            returns = (x.value for x in walk(one.body) if isinstance(x, cst.Return))
            yield from (value for value in returns if value is not None)
    if not functions:
        yield node


def _rates(script: Script, structure: Structure) -> Iterator[cst.BaseExpression]:
    """What ``group["lr"]`` is set to."""
    for assign in structure.all(cst.Assign):
        if any(is_rate(script, one.target) for one in assign.targets):
            yield assign.value


def _stepped_per_batch(script: Script, call: cst.Call) -> bool:
    """Whether the schedule is stepped inside a loop over a loader that is split."""
    made = set(script.instances(call))
    for step in script.method_calls("step", everywhere=True):
        assert isinstance(step.func, cst.Attribute)
        if made & set(script.instances(step.func.value)) and _is_in_batches(script, step):
            return True
    return False


def _is_in_batches(script: Script, node: cst.CSTNode) -> bool:
    return any(
        isinstance(loop, cst.For) and any(map(script.is_sharded, script.loaders_in(loop.iter)))
        for loop in script.control.around(node)
    )
