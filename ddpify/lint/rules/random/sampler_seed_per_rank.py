"""A DistributedSampler's seed differs between ranks.

## What it does
Looks for `DistributedSampler(seed=...)` with something of the rank's own, the clock or a random
number, and for such seeds in a sampler of the project that takes the rank's part after it.

## Why is this bad
The sampler shuffles all of the data and takes this rank's part. Each rank then takes its part of
another order: samples are read twice or not at all.

## Example
```python
sampler = DistributedSampler(dataset, seed=rank)
```
```python
class Parts(torch.utils.data.Sampler):
    def __init__(self, count):
        self.count, self.epoch = count, 0

    def __iter__(self):
        g = torch.Generator().manual_seed(self.epoch + rank)
        return iter(torch.randperm(self.count, generator=g).tolist()[rank::world_size])

loader = DataLoader(dataset, 32, sampler=Parts(100))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Use instead
```python
sampler = DistributedSampler(dataset, seed=42)
```

## Also fine
```python
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
sampler = DistributedSampler(dataset, seed=parser.parse_args().seed)
```
A rank's own order of what is its own part already.
```python
class Parts(torch.utils.data.Sampler):
    def __init__(self, count):
        self.own, self.epoch = list(range(count))[rank::world_size], 0

    def __iter__(self):
        g = torch.Generator().manual_seed(self.epoch + rank)
        return iter([self.own[i] for i in torch.randperm(len(self.own), generator=g).tolist()])

loader = DataLoader(dataset, 32, sampler=Parts(100))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.datasets import samplers
from ddpify.lint.scripts.own_samplers import seeds_by_rank
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import SAMPLER
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK

_MESSAGE = "each rank shuffles differently: samples are read twice or not at all"


@rule("sampler-seed-per-rank", group="data", severity=Severity.SILENT, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Seeds that ranks do not share."""
    for call in script.calls(SAMPLER, "torch.utils.data.DistributedSampler"):
        given = argument(call, "seed", 4)
        if given is not None and script.labels(given.value) & (ANY_RANK | {CLOCK}):
            yield Finding(given, _MESSAGE)
    held = {one: None for loader in script.facts.loaders for one in samplers(loader)}
    for seed in dict.fromkeys(x for one in held for x in seeds_by_rank(script, one)):
        if seed in script.structure.order:
            yield Finding(seed, _MESSAGE)
