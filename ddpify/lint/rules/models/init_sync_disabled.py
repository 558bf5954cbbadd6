"""The wrapper is told not to make the ranks equal at the start.

## What it does
Looks for `DistributedDataParallel(..., init_sync=False)` in scripts that send nothing themselves.

## Why is this bad
With `init_sync=False` nobody checks, or makes, the parameters equal. Ranks whose models differ
stay apart by that difference, however well their gradients are averaged.

## Example
```python
model = DDP(net, device_ids=[local_rank], init_sync=False)
```
```python
options = False
model = DDP(net, init_sync=options)
```

## Use instead
```python
model = DDP(net, device_ids=[local_rank])
```

## Also fine
```python
for tensor in net.state_dict().values():
    dist.broadcast(tensor, 0)
model = DDP(net, device_ids=[local_rank], init_sync=False)
```
```python
torch.manual_seed(0)
fresh = Net().to(device)
model = DDP(fresh, device_ids=[local_rank], init_sync=False)
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Applicability, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.repairs import drop_argument
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import agreed
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.syntax import argument

_SENDERS = ("torch.distributed.broadcast", "torch.distributed._broadcast_coalesced",
            "torch.distributed.broadcast_object_list")  # fmt: skip


@rule(
    "init-sync-disabled",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Wrappers that send nothing, where nothing else does."""
    if script.uses(*_SENDERS) or agreed(script, "torch"):
        return
    for call in script.calls(DDP):
        given = argument(call, "init_sync")
        if given is not None and script.value(given.value).constant() is False:
            edit = drop_argument(script, call, given)
            fix = Fix("send rank 0's parameters at the start", (edit,), Applicability.UNSAFE)
            yield Finding(given, "the ranks start from models that nothing makes equal", fix)
