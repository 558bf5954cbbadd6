"""An argument of DistributedDataParallel has a new name, and another meaning at the start.

## What it does
Looks for `broadcast_buffers=` where the project requires PyTorch 2.13 or later.

## Why is this bad
It warns on every rank and will be removed. `forward_sync_buffers` takes its place in the forward
pass, but buffers are still sent once when the wrapper is made.

## Example
```python recent
model = DDP(net, device_ids=[local_rank], broadcast_buffers=False)
```

## Use instead
```python recent
model = DDP(net, device_ids=[local_rank], forward_sync_buffers=False)
```

## Also fine
A project that supports older versions, which know no other name.
```python
model = DDP(net, device_ids=[local_rank], broadcast_buffers=False)
```

## Fix safety
Unsafe: with the new name, the buffers of rank 0 are sent to all when the wrapper is made.

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Applicability, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.syntax import argument


@rule(
    "broadcast-buffers",
    group="deprecated",
    severity=Severity.STYLE,
    applies="distributed other",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Wrappers with the old argument."""
    for call in script.calls(DDP):
        given = argument(call, "broadcast_buffers")
        if given is None or given.keyword is None or not script.requires_torch(2, 13):
            continue
        title = "use forward_sync_buffers"
        fix = script.replace(given.keyword, "forward_sync_buffers", title, Applicability.UNSAFE)
        yield Finding(given, "deprecated since PyTorch 2.13: forward_sync_buffers", fix)
