"""The training data is no longer shuffled.

## What it does
Looks for training loaders whose `DistributedSampler` is told `shuffle=False`.

## Why is this bad
The loader's own `shuffle` is off as soon as there is a sampler, so that the sampler must do it.
With `shuffle=False` every epoch has the order of the files, and each batch may be of one class.

## Example
```python
loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset, shuffle=False))
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```
```python
ordered = DistributedSampler(dataset, world_size, rank, False)
loader = DataLoader(dataset, 32, sampler=ordered)
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

## Use instead
```python
sampler = DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, 32, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

## Also fine
Evaluation, and an order that is an option.
```python
val_loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset, shuffle=False))
with torch.no_grad():
    for x, y in val_loader:
        model(x)
```
```python
train_loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset))
val_loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset, shuffle=False))
def batches(one):
    yield from one
def run(one, train):
    for x, y in batches(one):
        loss = criterion(model(x), y)
        if train:
            loss.backward()
for epoch in range(epochs):
    run(train_loader, True)
    run(val_loader, False)
```
```python
shuffled = os.environ.get("SHUFFLE") == "1"
loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset, shuffle=shuffled))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## When not to follow it
Where the order is part of the task, as for sequences in time.

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.datasets import datasets, is_iterable, samplers
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import is_distributed_sampler
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Instance


@rule(
    "train-sampler-shuffle-changed",
    group="data",
    severity=Severity.SILENT,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Samplers of training loaders that keep the order."""
    ordered: dict[cst.Arg, None] = {}
    for loader in script.training_loaders:
        found = [_keeps_order(script, one) for one in samplers(loader)]
        if not found or _is_ordered(loader) or any(one is None for one in found):
            return  # something shuffles: what keeps its order beside it may be for evaluation
        ordered |= dict.fromkeys(one for one in found if one is not None)
    for given in ordered:
        if script.owners.get(given) is script.module:
            title = "shuffle in the sampler"
            fix = script.replace(given.value, "True", title, Applicability.UNSAFE)
            yield Finding(given, "the training data comes in the same order every epoch", fix)


def _keeps_order(script: Script, sampler: Instance) -> cst.Arg | None:
    """The argument by which a DistributedSampler surely does not shuffle."""
    if not isinstance(sampler.site, cst.Call) or not is_distributed_sampler(sampler):
        return None
    given = argument(sampler.site, "shuffle", 3)
    return given if given is not None and script.value(given.value).constant() is False else None


def _is_ordered(loader: Instance) -> bool:
    return any(map(is_iterable, datasets(loader)))
