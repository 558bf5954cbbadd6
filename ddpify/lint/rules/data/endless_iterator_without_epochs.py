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

One that is made anew in each epoch begins at the sampler again, and ends with another loader.
```python
from itertools import cycle
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for (x, y), (more, _) in zip(DataLoader(dataset, 8), cycle(loader)):
        criterion(model(x), y).backward()
        optimizer.step()
```

## References
https://docs.python.org/3/library/itertools.html#itertools.cycle
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk


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
        if not loaders or _is_made_anew(script, call):
            continue
        if all(script.is_sharded(one) for one in loaders):
            yield Finding(call, "replays the batches of the first epoch, from memory, forever")


def _is_made_anew(script: Script, call: cst.Call) -> bool:
    """Whether a loop makes it, in which something else says how many batches are taken: what it is
    zipped with, or another loop over loaders.
    """
    loops = script.control.around(call)
    return bool(loops) and (
        _is_zipped(script, call)
        or any(
            isinstance(one, cst.For) and call not in walk(one.iter) and script.loaders_in(one.iter)
            for loop in loops
            for one in walk(loop.body)
        )
    )


def _is_zipped(script: Script, call: cst.Call) -> bool:
    """``zip(loader, cycle(other))``, which ends with the loader."""
    endless = set(script.calls("itertools.cycle"))
    return any(
        isinstance(above, cst.Call)
        and "builtins.zip" in script.names(above.func)
        and any(script.loaders_in(one.value) for one in above.args if endless.isdisjoint(walk(one)))
        for above in script.structure_of(call).up(call)
    )
