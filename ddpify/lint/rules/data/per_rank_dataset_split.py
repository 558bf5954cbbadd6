"""Each rank splits the data by its own random numbers.

## What it does
Looks for `random_split` without a generator, or with one of the rank, `train_test_split` without
`random_state` and the like, when no seed makes all ranks draw the same numbers.

## Why is this bad
What one rank validates on, another trains on. The validation score is too good, and no error
says so.

## Example
```python
train, val = random_split(dataset, [80, 20])
```
```python
indices = torch.randperm(len(dataset))
train = torch.utils.data.Subset(dataset, indices[:80])
val = torch.utils.data.Subset(dataset, indices[80:])
```
```python
indices = list(range(100))
random.shuffle(indices)
train = torch.utils.data.Subset(dataset, indices[:80])
```
```python
train, val = random_split(dataset, [80, 20])
torch.manual_seed(0)
```
```python
torch.manual_seed(0)
own = torch.Generator()
own.manual_seed(rank)
train, val = random_split(dataset, [80, 20], generator=own)
```

## Use instead
```python
train, val = random_split(dataset, [80, 20], generator=torch.Generator().manual_seed(0))
```

## Also fine
```python
torch.manual_seed(0)
train, val = random_split(dataset, [80, 20])
```
```python
train = torch.utils.data.Subset(dataset, range(80))
order = torch.randperm(100)
```

## Fix safety
Unsafe: the split becomes another one than that of earlier runs, and the same in every run.

## References
https://github.com/Lightning-AI/pytorch-lightning/issues/7728
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import may_be_seeded, seeds
from ddpify.lint.scripts.sequence import runs_only_after
from ddpify.lint.scripts.splits import Split, draw_alike, splits
from ddpify.lint.scripts.unreached import is_called_from_elsewhere


@rule(
    "per-rank-dataset-split",
    group="data",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Random splits that ranks need not agree on."""
    for one in splits(script):
        if script.control.rank_guards(one.call) or script.has_runtime:
            continue
        if not one.own and _may_be_seeded(script, one):
            continue
        if script.control.is_only_before_spawning(one.call):
            continue  # the ranks get what their parent has drawn
        elsewhere = is_called_from_elsewhere(script.control, one.call)
        if elsewhere and not one.own and not script.strict:
            continue  # whoever calls it may have seeded
        text = (
            "each rank splits the data by its own random numbers: they validate on what others"
            " train on"
        )
        yield Finding(one.call, text, draw_alike(script, one))


def _may_be_seeded(script: Script, one: Split) -> bool:
    """Whether a seed, or code that is not seen and may set one, comes before a split."""
    known = seeds(script, one.family)
    if known or script.strict:
        return not all(runs_only_after(script, seed, one.call) for seed in known)
    return may_be_seeded(script, one.family)
