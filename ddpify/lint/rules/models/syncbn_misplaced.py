"""The conversion to SyncBatchNorm comes to nothing.

## What it does
Looks for `convert_sync_batchnorm` whose result is dropped, or that gets a wrapped model.

## Why is this bad
It gives back the converted model. A model that is a BatchNorm itself, or is already wrapped, is
not synchronised without an error.

## Example
```python
nn.SyncBatchNorm.convert_sync_batchnorm(model)
```

## Use instead
```python
net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
model = DDP(net, device_ids=[local_rank])
```

## Also fine
```python
model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(net), device_ids=[local_rank])
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script


@rule("syncbn-misplaced", group="wrapping", severity=Severity.SILENT, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Conversions after the wrap."""
    for call in script.calls("torch.nn.SyncBatchNorm.convert_sync_batchnorm"):
        held = call.args[0].value if call.args else None
        if held is not None and script.is_ddp(held):
            yield Finding(call, "the model is wrapped already: convert it before")
        elif isinstance(script.structure.parents.get(call), cst.Expr):
            yield Finding(call, "the converted model is dropped: it is the result of this call")
