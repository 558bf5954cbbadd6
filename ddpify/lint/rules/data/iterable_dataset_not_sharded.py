"""Every rank reads the whole stream of an IterableDataset.

## What it does
Looks for training loaders over an `IterableDataset` of the project that neither asks for its rank
nor is given it.

## Why is this bad
No sampler can split a data set that yields by itself. All ranks train on the same samples: N
times the work for the result of one process.

## Example
```python
class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path) as file:
            for line in file:
                yield torch.tensor([float(x) for x in line.split()])

for x in DataLoader(Lines("data.txt"), 32):
    model(x).mean().backward()
    optimizer.step()
```
```python
def lines(path):
    with open(path) as file:
        yield from file

class Lines(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        for i, line in enumerate(lines("data.txt")):
            if info is None or i % info.num_workers == info.id:
                yield torch.tensor([float(x) for x in line.split()])

stream = DataLoader(Lines(), 32, num_workers=2)
for epoch in range(epochs):
    for x in stream:
        model(x).mean().backward()
        optimizer.step()
```

## Use instead
```python
class Lines(IterableDataset):
    def __iter__(self):
        with open("data.txt") as file:
            for i, line in enumerate(file):
                if i % world_size == rank:
                    yield torch.tensor([float(x) for x in line.split()])

for x in DataLoader(Lines(), 32):
    model(x).mean().backward()
    optimizer.step()
```

## Also fine
A data set that is given its part, and one that draws its samples.
```python
class Lines(IterableDataset):
    def __init__(self, paths):
        self.paths = paths

    def __iter__(self):
        for path in self.paths:
            yield torch.load(path, map_location="cpu")

for x in DataLoader(Lines(["a.pt", "b.pt", "c.pt", "d.pt"][rank::world_size]), 32):
    model(x).mean().backward()
    optimizer.step()
```
```python
class Noise(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randn(10)

for x in DataLoader(Noise(), 32):
    model(x).mean().backward()
    optimizer.step()
```

## When not to follow it
Where the samples are drawn at random, from a seed that differs between ranks.

## References
https://docs.pytorch.org/docs/stable/data.html#iterable-style-datasets
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.datasets import datasets, is_iterable, knows_its_rank
from ddpify.lint.scripts.script import Script
from ddpify.understanding.taint.sources import RANDOM
from ddpify.understanding.values import Class, Instance

_SPLITTERS = (
    "datasets.distributed.split_dataset_by_node",
    "webdataset.",
    "torchdata.",
    "torch.utils.data.datapipes.",
)


@rule(
    "iterable-dataset-not-sharded",
    group="data",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Training loaders over streams that all ranks read alike."""
    if not script.wraps or script.has_runtime or script.uses(*_SPLITTERS):
        return
    for loader in script.training_loaders:
        held = datasets(loader)
        if loader.module is script.module and held and all(_is_full(script, d) for d in held):
            yield Finding(
                loader.site, "every rank reads the whole stream: all train on the same samples"
            )


def _is_full(script: Script, dataset: Instance) -> bool:
    """Whether a data set's own code yields the same on all ranks."""
    if not isinstance(dataset.type, Class) or not is_iterable(dataset):
        return False
    if knows_its_rank(script, dataset):
        return False
    calls = (one for one in script.reached(dataset.type.node) if isinstance(one, cst.Call))
    return not any(RANDOM in script.labels(one) for one in calls if one in script.owners)
