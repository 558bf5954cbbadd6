"""BatchNorm normalises with the statistics of one rank's small batch.

## What it does
Looks for a model with BatchNorm that is wrapped without `convert_sync_batchnorm`, where each rank
is known to see fewer than 32 samples at a time. With `--strict`, also where that is not known.

## Why is this bad
Means and variances come from a rank's own samples. With few of them the statistics are noisy, and
training differs from one process with the whole batch. Parameters stay equal among ranks.

## Example
```python
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to(device)
loader = DataLoader(dataset, 4, sampler=sampler)
model = DDP(net, device_ids=[local_rank])
for x, y in loader:
    criterion(model(x), y).backward()
```
```python
from torchvision.models import resnet18
loader = DataLoader(dataset, 4, sampler=sampler)
model = DDP(resnet18().to(device), device_ids=[local_rank])
for x, y in loader:
    criterion(model(x), y).backward()
```

## Use instead
```python
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to(device)
net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
loader = DataLoader(dataset, 4, sampler=sampler)
model = DDP(net, device_ids=[local_rank])
```

## Also fine
Large batches on each rank, and normalisation that does not look at the batch.
```python
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to(device)
loader = DataLoader(dataset, 64, sampler=sampler)
model = DDP(net, device_ids=[local_rank])
```
```python
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8)).to(device)
loader = DataLoader(dataset, 4, sampler=sampler)
model = DDP(net, device_ids=[local_rank])
```

## When not to follow it
Where statistics of each GPU are wanted, as in MoCo's shuffled BatchNorm.

## Fix safety
Unsafe: synchronised statistics change the numbers, cost time, and need GPUs.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Applicability, Edit, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.model_layers import synchronises_batchnorm
from ddpify.lint.scripts.one_process import never_runs
from ddpify.lint.scripts.repairs import spelled
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.model_structure import batchnorms_in
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import UNKNOWN, Instance

_ENOUGH = 32


@rule(
    "batchnorm-not-synced",
    group="wrapping",
    severity=Severity.SILENT,
    applies="converted distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Models with BatchNorm whose statistics are those of one rank."""
    if synchronises_batchnorm(script):
        return
    size = _batch_size(script)
    if (size is not None and size >= _ENOUGH) or (size is None and not script.strict):
        return
    for wrap in script.wraps:
        if wrap.site.module is script.module and _has_batchnorm(script, wrap):
            what = f"{size} samples" if size is not None else "its own samples"
            yield Finding(
                wrap.call,
                f"BatchNorm normalises with {what} of each rank: it is not synchronised",
                _fix(script, wrap),
            )


def _has_batchnorm(script: Script, wrap: Wrap) -> bool:
    """Whether a wrapped model has such a layer, and not only for options that no call gives."""
    return any(
        script.strict or not never_runs(script.control, one.site)
        for model in wrap.held
        for one in batchnorms_in(model)
    )


def _fix(script: Script, wrap: Wrap) -> Fix | None:
    """Convert the layers of what is wrapped, where it stands."""
    given, nn = argument(wrap.call, "module", 0), spelled(script, "torch.nn")
    if given is None or nn is None:
        return None
    start, end = script.positions.offsets(given.value)
    edits = (Edit(start, start, f"{nn}.SyncBatchNorm.convert_sync_batchnorm("), Edit(end, end, ")"))
    return Fix("synchronise its BatchNorm layers", edits, Applicability.UNSAFE)


def _batch_size(script: Script) -> int | None:
    """Samples of one rank at a time, where all training loaders say so.

    A script that only evaluates has the statistics of the training.
    """
    others = script.facts.loaders if script.facts.backwards or script.strict else []
    sizes = [_literal(loader) for loader in script.training_loaders or others]
    known = [size for size in sizes if size is not None]
    return min(known) if known and len(known) == len(sizes) else None


def _literal(loader: Instance) -> int | None:
    """None where one item of the data set is a batch by itself: BatchNorm fails at one sample."""
    held = loader.arguments.get("batch_size", UNKNOWN).constant()
    return held if isinstance(held, int) and held > 1 else None
