"""An endless iterator replays the first epoch.

## What it does
Looks for `itertools.cycle` over a loader with a `DistributedSampler`.

## Why is this bad
`cycle` keeps the batches of the first pass and gives the same ones, in the same order and with the
same augmentation, forever. `set_epoch` has no effect, and all batches stay in memory.

## Example
```python
import itertools
batches = itertools.cycle(loader)
for step in range(1000):
    x, y = next(batches)
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
from itertools import cycle
for step, (x, y) in enumerate(cycle(loader)):
    criterion(model(x), y).backward()
    optimizer.step()
```

## Use instead
```python
def endless():
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1

for step, (x, y) in enumerate(endless()):
    criterion(model(x), y).backward()
    optimizer.step()
```

## Also fine
```python
import itertools
colours = itertools.cycle(["red", "green"])
first = next(iter(loader))
```

## References
https://docs.python.org/3/library/itertools.html#itertools.cycle
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script


@rule(
    "endless-iterator-without-epochs",
    group="data",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Cycles over loaders that are split."""
    if script.has_runtime:
        return  # it trains on the batches that one process would repeat, too
    for call in script.calls("itertools.cycle"):
        loaders = script.loaders_in(call.args[0].value) if call.args else []
        if loaders and all(script.is_sharded(one) for one in loaders):
            yield Finding(call, "replays the batches of the first epoch, from memory, forever")
