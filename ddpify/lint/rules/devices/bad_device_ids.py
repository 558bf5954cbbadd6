"""DistributedDataParallel is given several GPUs.

## What it does
Looks for `DDP(..., device_ids=[...])` with more than one device.

## Why is this bad
One process drives one GPU: DDP raises ValueError.

## Example
```python
model = DDP(net, device_ids=[0, 1])
```

## Use instead
```python
model = DDP(net, device_ids=[local_rank])
```

## Also fine
```python
model = DDP(net)
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.syntax import argument


@rule("bad-device-ids", group="device", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Lists of more than one device."""
    for call in script.calls(DDP):
        given = argument(call, "device_ids", 1)
        if (
            given is not None
            and isinstance(given.value, cst.List)
            and len(given.value.elements) > 1
        ) and not any(isinstance(e, cst.StarredElement) for e in given.value.elements):
            yield Finding(given, "one process drives one GPU: DDP raises ValueError")
