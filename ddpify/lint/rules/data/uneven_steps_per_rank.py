"""Ranks may take different numbers of steps.

## What it does
Looks for training loops over data that is sliced by rank, as in `files[rank::world_size]`, where
nothing makes the parts equally long.

## Why is this bad
`backward()` of a wrapped model waits for all ranks. Where one rank has a batch more than the
others, it waits for them forever: the job hangs at the end of the epoch, until the timeout.

## Example
```python
files = [f"part{i}.pt" for i in range(101)]
for name in files[rank::world_size]:
    x, y = torch.load(name, map_location=device)
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
own = torch.utils.data.Subset(dataset, range(rank, len(dataset), world_size))
for x, y in DataLoader(own, 4, shuffle=True):
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
own = list(range(101))[rank::world_size]
def train():
    for index in own:
        x, y = dataset[index]
        criterion(model(x[None]), y[None]).backward()
        optimizer.step()
train()
```

## Use instead
```python
files = [f"part{i}.pt" for i in range(101)]
even = len(files) // world_size * world_size
for name in files[:even][rank::world_size]:
    x, y = torch.load(name, map_location=device)
    criterion(model(x), y).backward()
    optimizer.step()
```

## Also fine
`Join`, a sampler, which gives all ranks equally much, and loops without a collective.
```python
from torch.distributed.algorithms.join import Join
with Join([model]):
    for i in range(rank, 101, world_size):
        x, y = dataset[i]
        criterion(model(x[None]), y[None]).backward()
        optimizer.step()
```
```python
for i in range(rank, 101, world_size):
    with torch.no_grad():
        model.module(dataset[i][0][None])
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
for step, i in enumerate(range(rank, 101, world_size)):
    if step == 101 // world_size:
        break
    x, y = dataset[i]
    criterion(model(x[None]), y[None]).backward()
    optimizer.step()
```

## When not to follow it
Where the data is known to divide evenly.

## References
https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk_here
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK, LOCAL, WORLD

_STRIDED = ("builtins.range", "itertools.islice")
_JOINS = ("torch.distributed.algorithms.join.Join", "torch.distributed.algorithms.Join")


@rule(
    "uneven-steps-per-rank",
    group="data",
    severity=Severity.HANG,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Training loops over one rank's share, of which nothing says that all are equal."""
    if not script.wraps or _is_made_even(script):
        return
    shares = [(node, _goes_to(script, node)) for node in _shares(script)]
    for loop in script.structure.all(cst.For):
        for node, locations in shares:
            over = any(inner is node for inner in walk_here(loop.iter))
            over = over or bool(script.flow.locations(loop.iter, script.module) & locations)
            if over and script.trains(loop) and not _stops_by_count(script, loop):
                yield Finding(
                    node, "ranks may get one batch more than others, and then wait for them forever"
                )
                break


def _is_made_even(script: Script) -> bool:
    if script.uses(*_JOINS) or any(True for _ in script.method_calls("join", everywhere=True)):
        return True
    return any("ReduceOp.MIN" in file.source.text for file in script.project.files)


def _shares(script: Script) -> Iterator[cst.BaseExpression]:
    """``x[rank::world_size]``, and ranges and slices of iterators that stride so."""
    for item in script.structure.all(cst.Subscript):
        part = item.slice[0].slice
        if isinstance(part, cst.Slice) and _strides(script, part.lower, part.step):
            bounds = [item.value] + ([part.upper] if part.upper is not None else [])
            if not any(WORLD in script.flow.sources(one, script.module) for one in bounds):
                yield item
    for call in script.structure.all(cst.Call):
        if not script.names(call.func) & set(_STRIDED) or len(call.args) < 3:
            continue
        *others, first, last, step = [one.value for one in call.args]
        if _strides(script, first, step) and not any(
            WORLD in script.flow.sources(one, script.module) for one in [*others, last]
        ):
            yield call


def _strides(
    script: Script, first: cst.BaseExpression | None, step: cst.BaseExpression | None
) -> bool:
    if first is None or step is None:
        return False
    return bool(script.labels(first) & ANY_RANK) and WORLD in script.labels(step)


def _goes_to(script: Script, node: cst.BaseExpression) -> set[Location]:
    """The slots that hold what is made of a share."""
    statement = script.structure.statement(node)
    inside = set(walk_here(statement))
    starts = {
        location for edge in script.flow.edges if edge.node in inside for location in edge.targets
    }
    return script.flow.derived(starts) if not isinstance(statement, cst.For) else set()


def _stops_by_count(script: Script, loop: cst.For) -> bool:
    """Whether the loop is left on a condition that is the same on all ranks."""
    for one in script.structure.inside(loop.body, cst.Break):
        if not any(LOCAL in script.labels(guard.test) for guard in script.control.guards(one)):
            return True
    return False
