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
from ddpify.lint.scripts.spread_options import option
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.syntax import argument


@rule("bad-device-ids", group="device", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Lists of more than one device."""
    for call in script.calls(DDP):
        given, told = argument(call, "device_ids", 1), option(script, call, "device_ids", 1)
        if not isinstance(told, cst.List) or len(told.elements) < 2:
            continue
        if not any(isinstance(one, cst.StarredElement) for one in told.elements):
            yield Finding(given or call, "one process drives one GPU: DDP raises ValueError")
