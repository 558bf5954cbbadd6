"""Ranks have seeds of their own, and draw what all of them must share.

## What it does
Looks for random splits of a data set in scripts whose seeds depend on the rank.

## Why is this bad
With its own seed, each rank splits the data in its own way: what one validates on, another trains
on, and no error says so. A model under DistributedDataParallel is safe, since its constructor sends
rank 0's parameters to all.

## Example
```python
torch.manual_seed(42 + rank)
train, val = random_split(dataset, [80, 20])
```
```python
def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)

seed_all(7 + dist.get_rank())
order = np.random.permutation(len(dataset))
train = torch.utils.data.Subset(dataset, order[:80])
val = torch.utils.data.Subset(dataset, order[80:])
```

## Use instead
```python
torch.manual_seed(42 + rank)
train, val = random_split(dataset, [80, 20], generator=torch.Generator().manual_seed(42))
```

## Also fine
Parameters, augmentation, and a common seed for the split.
```python
torch.manual_seed(42 + rank)
fresh = DDP(Net().to(device), device_ids=[local_rank])
noise = torch.randn(3)
train = torch.utils.data.Subset(dataset, range(80))
```
```python
torch.manual_seed(42)
train, val = random_split(dataset, [80, 20])
torch.manual_seed(42 + rank)
```

## Fix safety
Unsafe: the split becomes another one than that of earlier runs, and the same in every run.

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.random_split
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import apart
from ddpify.lint.scripts.splits import Split, draw_alike, splits


@rule(
    "rank-seed-before-shared-randomness",
    group="rng",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Splits that are drawn from seeds that differ."""
    for one in splits(script):
        if one.own or not apart(script, one.family) or script.control.rank_guards(one.call):
            continue
        if not _is_sent(script, one):
            yield Finding(
                one.call,
                "the seed differs between ranks, so that each splits the data in its own way: they"
                " validate on what others train on",
                draw_alike(script, one),
            )


def _is_sent(script: Script, one: Split) -> bool:
    """Whether what is drawn goes through a collective, as rank 0's to all."""
    structure = script.structure_of(one.call)
    edges = [edge for above in structure.up(one.call) for edge in script.flow.edges_at(above)]
    return any(script.flow.sanitized.intersection(edge.targets) for edge in edges)
