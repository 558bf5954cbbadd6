"""Distributed training with libraries that PyTorch has replaced.

## What it does
Looks for fairscale's `OSS`, `ShardedDataParallel` and `FullyShardedDataParallel`, and for apex's
`DistributedDataParallel`, `convert_syncbn_model` and `amp`.

## Why is this bad
They are no longer developed, break with newer versions of PyTorch, and PyTorch has all of it:
`fully_shard`, `ZeroRedundancyOptimizer`, `DistributedDataParallel`, `SyncBatchNorm`, `torch.amp`.

## Example
```python
from apex.parallel import DistributedDataParallel
model = DistributedDataParallel(net)
```
```python
from fairscale.optim.oss import OSS
optimizer = OSS(params=net.parameters(), optim=torch.optim.SGD, lr=0.1)
```
```python single
from apex import amp
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
```

## Use instead
```python
from torch.distributed.optim import ZeroRedundancyOptimizer
model = DDP(net)
optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)
```

## Also fine
Optimizers and layers of apex, and a script that takes apex only where it is there.
```python
from apex.optimizers import FusedAdam
optimizer = FusedAdam(net.parameters())
try:
    from apex.parallel import convert_syncbn_model
    net = convert_syncbn_model(net)
except ImportError:
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
```
```python
from apex.parallel import convert_syncbn_model
if os.environ.get("APEX"):
    net = convert_syncbn_model(net)
else:
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
```

## References
https://github.com/NVIDIA/apex
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.script import Script

_OLD = {
    "apex.parallel.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "apex.parallel.convert_syncbn_model": "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "apex.parallel.SyncBatchNorm": "torch.nn.SyncBatchNorm",
    "apex.amp.initialize": "torch.amp",
    "fairscale.optim.oss.OSS": "torch.distributed.optim.ZeroRedundancyOptimizer",
    "fairscale.optim.OSS": "torch.distributed.optim.ZeroRedundancyOptimizer",
    "fairscale.nn.data_parallel.ShardedDataParallel": "torch.distributed.fsdp.fully_shard",
    "fairscale.nn.ShardedDataParallel": "torch.distributed.fsdp.fully_shard",
    "fairscale.nn.FullyShardedDataParallel": "torch.distributed.fsdp.fully_shard",
    "fairscale.nn.data_parallel.FullyShardedDataParallel": "torch.distributed.fsdp.fully_shard",
}


@rule(
    "fairscale-apex",
    group="deprecated",
    severity=Severity.STYLE,
    applies="single distributed other",
)
def check(script: Script) -> Iterator[Finding]:
    """Calls for which PyTorch has its own."""
    for old, new in _OLD.items():
        for call in script.calls(old):
            chosen = script.guards(call) and script.uses(new, f"{new}.")
            tried = script.in_try(call)
            if not chosen and not tried:
                yield Finding(call, f"no longer developed; PyTorch has {new}")
