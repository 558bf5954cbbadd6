"""A training loader gives every rank all of the data.

## What it does
Looks for a `DataLoader` whose batches reach `backward()` and whose sampler knows nothing of ranks.

## Why is this bad
DistributedDataParallel averages gradients; it does not split the input. Without a sampler that
splits the data, each epoch costs as much as on one GPU, and with equal seeds all ranks train on
the same batches.

## Example
```python
loader = DataLoader(dataset, 32, shuffle=True)
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

## Use instead
```python
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, 32, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

## Also fine
A data set that is split by hand, and a sampler that is there only when the run is distributed.
```python
own = torch.utils.data.Subset(dataset, range(rank, len(dataset), world_size))
for x, y in DataLoader(own, 32, shuffle=True):
    criterion(model(x), y).backward()
```
```python
sampler = DistributedSampler(dataset) if dist.is_initialized() else None
loader = DataLoader(dataset, 32, shuffle=sampler is None, sampler=sampler)
for x, y in loader:
    criterion(model(x), y).backward()
```

## When not to follow it
Where every rank is meant to draw its own data, as in self-play.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.datasets import chooses, datasets, is_iterable, samplers
from ddpify.lint.diagnostics import Applicability, Severity
from ddpify.lint.registry import SINGLE, Finding, rule
from ddpify.lint.repairs import runtime
from ddpify.lint.script import Script
from ddpify.understanding.libraries.runtime_names import REPLICATE
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Instance


@rule(
    "missing-distributed-sampler",
    group="data",
    severity=Severity.SILENT,
    applies="single distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Training loaders that are not split among the ranks."""
    for loader in script.training_loaders:
        if not isinstance(loader.site, cst.Call) or loader.module is not script.module:
            continue
        if _is_of_a_part(script, loader.site):
            continue
        if script.kind == SINGLE:
            yield Finding(loader.site, "each rank must get its own part of every batch")
        elif script.has_runtime:
            if not script.may_be_sharded(loader):
                yield _not_shared(script, loader.site)
        elif not script.averages or not script.updates or script.may_be_sharded(loader):
            continue
        elif not _cannot_be_split(loader):
            yield Finding(
                loader.site,
                "every rank trains on all of the data: the sampler does not split it",
            )


def _is_of_a_part(script: Script, call: cst.Call) -> bool:
    """Whether the process that starts the ranks makes one loader for each of them, in a loop."""
    in_loop = bool(script.structure.loops(call)) or any(
        isinstance(above, cst.ListComp) for above in script.structure.up(call)
    )
    return in_loop and script.control.is_only_before_spawning(call)


def _not_shared(script: Script, call: cst.Call) -> Finding:
    """A loader that ddpify's runtime would split, whatever its sampler or data set."""
    dd = runtime(script)
    fix = None
    if dd is not None and not script.names(call.func) & {REPLICATE}:
        text = f"{dd}.shard({code_of(call)})"
        fix = script.replace(call, text, "split its batches among the ranks", Applicability.UNSAFE)
    message = f"every rank trains on all of the data: {dd or 'dd'}.shard() splits its batches"
    return Finding(call, message, fix)


def _cannot_be_split(loader: Instance) -> bool:
    """Whether the data set yields by itself, or a sampler chooses: other rules' work."""
    return any(map(is_iterable, datasets(loader))) or any(map(chooses, samplers(loader)))
