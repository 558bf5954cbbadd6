"""A sampler that chooses its samples does so for each rank alike, or for each by chance.

## What it does
Looks for training loaders with a `WeightedRandomSampler`, a `SubsetRandomSampler` or a sampler of
the project that knows nothing of ranks.

## Why is this bad
The sampler draws a whole epoch on every rank: each rank works through all of it, with equal seeds
on the same samples. A `DistributedSampler` in its place would lose the weights or the buckets.

## Example
```python
weights = torch.ones(100)
balanced = torch.utils.data.WeightedRandomSampler(weights, 100)
loader = DataLoader(dataset, 32, sampler=balanced)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
class Buckets(torch.utils.data.Sampler):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        for start in torch.randperm(100 // self.size).tolist():
            yield list(range(start * self.size, (start + 1) * self.size))

    def __len__(self):
        return 100 // self.size

loader = DataLoader(dataset, batch_sampler=Buckets(10))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Use instead
Every rank draws the same order, from a generator of its own, and takes its share.
```python
class Balanced(torch.utils.data.Sampler):
    def __init__(self, weights, count):
        self.weights, self.count, self.epoch = weights, count, 0

    def __iter__(self):
        g = torch.Generator().manual_seed(self.epoch)
        drawn = torch.multinomial(self.weights, self.count, True, generator=g)
        return iter(drawn[rank::world_size].tolist())

    def __len__(self):
        return self.count // world_size

loader = DataLoader(dataset, 32, sampler=Balanced(torch.ones(100), 100 // world_size * world_size))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Also fine
A sampler that is given its rank or derives from `DistributedSampler`, and one of an evaluation.
```python
class Shared(DistributedSampler):
    def __iter__(self):
        return iter(list(super().__iter__())[::-1])

loader = DataLoader(dataset, 32, sampler=Shared(dataset))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
some = torch.utils.data.SubsetRandomSampler(range(10))
with torch.no_grad():
    for x, y in DataLoader(dataset, 32, sampler=some):
        model.module(x)
```

## When not to follow it
Where each rank draws with replacement from a seed of its own, and an epoch is only a count.

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.WeightedRandomSampler
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.datasets import chooses, datasets, knows_its_rank, samplers
from ddpify.lint.scripts.own_samplers import draws_by_itself, gives_all_ranks_the_same
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import apart
from ddpify.understanding.libraries.distributed import splits
from ddpify.understanding.taint.sources import ANY_RANK, WORLD
from ddpify.understanding.values import Class, Instance


@rule(
    "custom-sampler-lost-or-unsharded",
    group="data",
    severity=Severity.SILENT,
    applies="distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Training loaders whose own sampler draws for one process."""
    if not script.wraps or script.has_runtime:
        return
    for loader in script.training_loaders:
        held = samplers(loader)
        if loader.module is not script.module or not held or "**" in loader.arguments:
            continue
        if all(_draws_for_one(script, one) for one in held) and not _splits(script, loader):
            yield Finding(
                loader.site,
                "its sampler draws a whole epoch on every rank: the data is not split",
            )


def _draws_for_one(script: Script, sampler: Instance) -> bool:
    """Whether a sampler gives an order that nothing of the rank has a part in."""
    kept = [atom for held in sampler.attributes.values() for atom in held.atoms]
    if isinstance(sampler.type, Class) and any(map(splits, kept)):
        return False  # it makes batches of another one's part
    if gives_all_ranks_the_same(script, sampler):
        return draws_by_itself(script, sampler) or not apart(script)
    return chooses(sampler) and not knows_its_rank(script, sampler) and not apart(script)


def _splits(script: Script, loader: Instance) -> bool:
    """Whether the data set, or anything else that goes into the loader, depends on the rank: not
    the sampler, of which it is known that it does not use it.
    """
    apart_from_others = ANY_RANK | {WORLD}
    held = samplers(loader)
    unused = all(gives_all_ranks_the_same(script, one) for one in held)
    return any(
        script.flow.sources(one.value, script.module) & apart_from_others
        for one in getattr(loader.site, "args", ())
        if not (unused and {*script.instances(one.value)} & {*held})
    ) or any(unused and knows_its_rank(script, one) for one in datasets(loader))
