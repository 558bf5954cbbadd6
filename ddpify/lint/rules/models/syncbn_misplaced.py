"""A BatchNorm layer's conversion to SyncBatchNorm is lost.

## What it does
Looks for `convert_sync_batchnorm` of a layer that is a BatchNorm itself, and whose result is
dropped.

## Why is this bad
The call replaces the BatchNorm layers inside a model, in place. A model that is a BatchNorm layer
itself cannot be replaced so: the converted layer is the result of the call, and the layer that was
passed goes on with the statistics of one rank.

## Example
```python
norm = nn.BatchNorm2d(8)
nn.SyncBatchNorm.convert_sync_batchnorm(norm)
```

## Use instead
```python
norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(8))
```

## Also fine
Models with BatchNorm layers inside, also after the wrap: the layers keep their parameters and
buffers, which the wrapper knows.
```python
nn.SyncBatchNorm.convert_sync_batchnorm(net)
```
```python
deep = DDP(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to(device))
deep = nn.SyncBatchNorm.convert_sync_batchnorm(deep)
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.model_structure import is_batchnorm


@rule(
    "syncbn-misplaced",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Conversions of single layers whose result nobody takes."""
    for call in script.calls("torch.nn.SyncBatchNorm.convert_sync_batchnorm"):
        held = script.instances(call.args[0].value) if call.args else ()
        dropped = isinstance(script.structure.parents.get(call), cst.Expr)
        if dropped and any(map(is_batchnorm, held)):
            yield Finding(call, "the converted layer is dropped: it is the result of this call")
