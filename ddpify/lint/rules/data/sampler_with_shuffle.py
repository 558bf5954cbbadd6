"""A loader gets a sampler and is told to shuffle.

## What it does
Looks for a `DataLoader` with a sampler and `shuffle=True`.

## Why is this bad
The loader refuses: `sampler option is mutually exclusive with shuffle`. The sampler shuffles.

## Example
```python
loader = DataLoader(dataset, 32, shuffle=True, sampler=sampler)
```

## Use instead
```python
loader = DataLoader(dataset, 32, sampler=sampler)
```

## Also fine
```python
maybe = sampler if world_size > 1 else None
loader = DataLoader(dataset, 32, shuffle=maybe is None, sampler=maybe)
```

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.failing import refuses_to_shuffle
from ddpify.lint.scripts.repairs import drop_argument
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import is_distributed_sampler
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Value


@rule(
    "sampler-with-shuffle",
    group="data",
    severity=Severity.CRASH,
    applies="single distributed other",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Loaders with both arguments."""
    for call in script.calls("torch.utils.data.DataLoader"):
        sampler, shuffle = argument(call, "sampler", 3), argument(call, "shuffle", 2)
        if sampler is None or shuffle is None or script.value(shuffle.value).constant() is not True:
            continue
        sure = _confidence(script, call, script.value(sampler.value))
        if sure is not None:
            fix = None
            if shuffle.keyword is not None:
                edit = drop_argument(script, call, shuffle)
                fix = Fix("leave the shuffling to the sampler", (edit,))
            message = "a loader with a sampler cannot shuffle: this raises ValueError"
            yield Finding(shuffle, message, fix, confidence=sure)


def _confidence(script: Script, loader: cst.Call, sampler: Value) -> Confidence | None:
    """How sure it is that there is a sampler: an option may leave out one that splits the data."""
    if refuses_to_shuffle(script, loader):
        return Confidence.CERTAIN
    return Confidence.LIKELY if any(map(is_distributed_sampler, sampler.atoms)) else None
