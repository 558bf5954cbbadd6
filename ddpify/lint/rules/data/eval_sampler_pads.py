"""Gathered predictions hold some samples twice.

## What it does
Looks for predictions of a loader with a `DistributedSampler` that are gathered over the ranks and
not cut to the size of the data set.

## Why is this bad
The sampler repeats samples so that all ranks get equally many: 5 samples on 2 ranks come as 6.
What is gathered has up to N - 1 samples twice, and a score over it is not that of the data set.

## Example
```python strict
val_loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset, shuffle=False))
found = []
with torch.no_grad():
    for x, y in val_loader:
        found.append(model(x))
found = torch.cat(found)
parts = [torch.zeros_like(found) for _ in range(world_size)]
dist.all_gather(parts, found)
everything = torch.cat(parts)
```
```python strict
val_loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset))
def evaluate():
    scores = []
    for x, y in val_loader:
        scores += model(x).argmax(1).tolist()
    parts = [None] * world_size
    dist.all_gather_object(parts, scores)
    return sum(parts, [])
```

## Use instead
```python
val_loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset, shuffle=False))
found = []
with torch.no_grad():
    for x, y in val_loader:
        found.append(model(x))
found = torch.cat(found)
parts = [torch.zeros_like(found) for _ in range(world_size)]
dist.all_gather(parts, found)
everything = torch.stack(parts, 1).flatten(0, 1)[:len(dataset)]
```

## Also fine
A sampler that leaves the rest out, counts that are added up, and an evaluation of everything.
```python
even = DistributedSampler(dataset, drop_last=True)
val_loader = DataLoader(dataset, 32, sampler=even)
found = []
for x, y in val_loader:
    found.append(model(x))
parts = [None] * world_size
dist.all_gather_object(parts, found)
```
```python
whole = DataLoader(dataset, 32)
found = []
for x, y in whole:
    found.append(model(x))
parts = [None] * world_size
dist.all_gather_object(parts, found)
```

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.datasets import samplers
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Instance

_GATHERS = {
    "torch.distributed.all_gather": 1,
    "torch.distributed.all_gather_object": 1,
    "torch.distributed.gather_object": 0,
    "torch.distributed.all_gather_into_tensor": 1,
}


@rule(
    "eval-sampler-pads",
    group="data",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.POSSIBLE,
)
def check(script: Script) -> Iterator[Finding]:
    """Gathers of what was collected over an evaluation loader that pads."""
    for loop in script.structure.all(cst.For):
        loaders = script.loaders_in(loop.iter)
        if not loaders or not all(_pads(script, one) for one in loaders):
            continue
        if any(one in script.training_loaders for one in loaders):
            continue
        collected = _collected(script, loop)
        for name, position in _GATHERS.items():
            for call in script.calls(name):
                given = argument(call, "tensor" if name.endswith("gather") else "obj", position)
                if (
                    given is None
                    or not script.flow.locations(given.value, script.module) & collected
                ):
                    continue
                if not _is_cut(script, call):
                    yield Finding(
                        call,
                        "unless the samples can be divided evenly by the number of ranks, the"
                        " sampler repeats some, which are gathered twice",
                    )


def _pads(script: Script, loader: Instance) -> bool:
    """Whether a loader's sampler surely fills up the last round."""
    held = samplers(loader)
    return script.is_sharded(loader) and all(
        isinstance(one.type, str) and "**" not in one.arguments and _keeps_all(one) for one in held
    )


def _keeps_all(sampler: Instance) -> bool:
    given = sampler.arguments.get("drop_last", sampler.arguments.get("5"))
    return given is None or given.constant() is False


def _collected(script: Script, loop: cst.For) -> set[Location]:
    """The lists that take something in each round, and what is made of them."""
    starts: set[Location] = set()
    for call in script.structure.inside(loop.body, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("append", "extend"):
            starts |= set(script.flow.names.of_target(call.func.value, script.module))
    for statement in script.structure.inside(loop.body, cst.AugAssign):
        made = statement.value.func if isinstance(statement.value, cst.Call) else None
        if isinstance(made, cst.Attribute) and made.attr.value == "tolist":
            starts |= set(script.flow.names.of_target(statement.target, script.module))
    return script.flow.derived(starts)


def _is_cut(script: Script, call: cst.Call) -> bool:
    """Whether anything below is cut to a length: it may be this."""
    at = script.structure.order[call]
    return any(
        isinstance(part.slice, cst.Slice) and part.slice.upper is not None
        for item in script.structure.all(cst.Subscript)
        if script.structure.order[item] > at
        for part in item.slice
    )
