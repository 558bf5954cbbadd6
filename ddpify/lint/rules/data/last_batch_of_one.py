"""A last batch of one sample stops BatchNorm, and with it the other ranks.

## What it does
Looks for training loaders whose batch size is divided among the ranks and whose short last batch
is kept, in front of a `BatchNorm1d`.

## Why is this bad
A batch that is shared out gets small: its remainder may be one sample, of which BatchNorm cannot
take statistics. The rank raises `Expected more than 1 value per channel when training`, and the
others wait for it.

## Example
```python
class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))

    def forward(self, x):
        return self.layers(x)

model = DDP(Normed().to(device), device_ids=[local_rank])
loader = DataLoader(dataset, 64 // world_size, sampler=sampler)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
size = 64
size //= dist.get_world_size()
model = DDP(nn.Sequential(nn.Linear(10, 2), nn.BatchNorm1d(2)).to(device))
loader = DataLoader(dataset, batch_size=size, sampler=sampler, drop_last=False)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Use instead
```python
model = DDP(nn.Sequential(nn.Linear(10, 2), nn.BatchNorm1d(2)).to(device))
loader = DataLoader(dataset, 64 // world_size, sampler=sampler, drop_last=True)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Also fine
A model that normalises over all ranks or over each sample, and images, of which one is enough.
```python
plain = nn.Sequential(nn.Linear(10, 2), nn.BatchNorm1d(2)).to(device)
model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(plain), device_ids=[local_rank])
loader = DataLoader(dataset, 64 // world_size, sampler=sampler)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
model = DDP(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten()).to(device))
loader = DataLoader(dataset, 64 // world_size, sampler=sampler)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Fix safety
Unsafe: the samples of the short batch are left out of the epoch.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.model_layers import synchronises_batchnorm
from ddpify.lint.scripts.repairs import add_argument
from ddpify.lint.scripts.script import Script
from ddpify.understanding.model_structure import layers
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import WORLD
from ddpify.understanding.values import Instance


@rule(
    "last-batch-of-one",
    group="data",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Loaders with a divided batch size in front of BatchNorm1d."""
    if synchronises_batchnorm(script) or not _normalises_rows(script):
        return
    for loader in script.training_loaders:
        call = loader.site
        if loader.module is not script.module or not isinstance(call, cst.Call):
            continue
        size, last = argument(call, "batch_size", 1), argument(call, "drop_last", 8)
        keeps = last is None or script.value(last.value).constant() is False
        if size is None or not keeps or "**" in loader.arguments:
            continue
        if WORLD in script.flow.sources(size.value, script.module):
            yield Finding(
                call,
                "a last batch of one sample stops BatchNorm on its rank, and the others wait",
                _fix(script, call, last),
            )


def _normalises_rows(script: Script) -> bool:
    """Whether a wrapped model has a BatchNorm that may see one value per channel."""
    held = [model for wrap in script.wraps for model in wrap.held]
    return any(_is_batchnorm1d(layer) for model in held for layer in layers(model))


def _is_batchnorm1d(layer: Instance) -> bool:
    return isinstance(layer.type, str) and layer.type.endswith("BatchNorm1d")


def _fix(script: Script, call: cst.Call, last: cst.Arg | None) -> Fix:
    title = "leave out the short last batch"
    if last is not None:
        return script.replace(last.value, "True", title, Applicability.UNSAFE)
    return add_argument(script, call, "drop_last=True", title, Applicability.UNSAFE)
