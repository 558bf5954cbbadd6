"""The conversion to SyncBatchNorm comes to nothing.

## What it does
Looks for `convert_sync_batchnorm` whose result is dropped, or that gets a wrapped model.

## Why is this bad
It gives back the converted model. A model that is a BatchNorm itself, or is already wrapped, is
not synchronised without an error.

## Example
```python
nn.SyncBatchNorm.convert_sync_batchnorm(net)
```
```python
deep = DDP(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to(device))
deep = nn.SyncBatchNorm.convert_sync_batchnorm(deep)
```

## Use instead
```python
net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
model = DDP(net, device_ids=[local_rank])
```

## Also fine
A model in which no layer is a BatchNorm, where nothing is converted at all.
```python
model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
```
```python
model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(net), device_ids=[local_rank])
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
from ddpify.understanding.model_structure import layers
from ddpify.understanding.values import Class


@rule("syncbn-misplaced", group="wrapping", severity=Severity.SILENT, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Conversions after the wrap."""
    for call in script.calls("torch.nn.SyncBatchNorm.convert_sync_batchnorm"):
        held = call.args[0].value if call.args else None
        if held is not None and script.is_ddp(held):
            sure = Confidence.CERTAIN if _may_have_norms(script, held) else Confidence.POSSIBLE
            message = "the model is wrapped already: convert it before"
            yield Finding(call, message, confidence=sure)
        elif isinstance(script.structure.parents.get(call), cst.Expr):
            yield Finding(call, "the converted model is dropped: it is the result of this call")


def _may_have_norms(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a wrapped model has BatchNorm layers, or is of code that is not seen."""
    found = script.instances(node)
    held = [model for wrap in script.wraps if wrap.wrapper in found for model in wrap.held]
    kinds = [layer.type for model in held for layer in layers(model)]
    seen = bool(held) and all(
        isinstance(one, Class) or one.startswith("torch.nn.") for one in kinds
    )
    return not seen or any(isinstance(one, str) and "BatchNorm" in one for one in kinds)
