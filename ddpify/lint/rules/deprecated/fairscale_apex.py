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

## Fix safety
Unsafe: apex's wrapper and batch norm become PyTorch's, without the options that only apex has.
`amp` must be changed by hand: it takes `torch.autocast` around the forward and a `GradScaler`
around the step.

## References
https://github.com/NVIDIA/apex
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.repairs import drop_arguments, spelled
from ddpify.lint.scripts.script import Script

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


# What PyTorch has with the same meaning, and the options that only apex knows.
_SAME = {
    old: _OLD[old]
    for old in ("apex.parallel.DistributedDataParallel", "apex.parallel.convert_syncbn_model")
}
_OF_APEX = (
    "message_size", "delay_allreduce", "allreduce_trigger_params", "retain_allreduce_buffers",
    "allreduce_always_fp32", "num_allreduce_streams", "allreduce_communicators",
    "gradient_average", "gradient_predivide_factor", "gradient_average_split_factor",
    "shared_param", "prof", "channel_last",
)  # fmt: skip


@rule(
    "fairscale-apex",
    group="deprecated",
    severity=Severity.STYLE,
    applies="single distributed other",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Calls for which PyTorch has its own."""
    for old, new in _OLD.items():
        for call in script.calls(old):
            chosen = script.control.guards(call) and script.uses(new, f"{new}.")
            tried = script.control.in_try(call)
            if not chosen and not tried:
                yield Finding(call, f"no longer developed; PyTorch has {new}", _fix(script, call))


def _fix(script: Script, call: cst.Call) -> Fix | None:
    """PyTorch's own in the place of apex's: the import, or the name where it is used."""
    names = script.names(call.func)
    new = next((_SAME[name] for name in sorted(names) if name in _SAME), None)
    torch = spelled(script, "torch")
    if new is None or torch is None:
        return None
    start, end = script.positions.offsets(call.func)
    edits = [Edit(start, end, new.replace("torch", torch, 1))]
    edits += drop_arguments(script, call, *_OF_APEX)
    edits += _unused_import(script, call)
    return Fix(f"use {new}", tuple(edits), Applicability.UNSAFE)


def _unused_import(script: Script, call: cst.Call) -> list[Edit]:
    """Take away ``from apex... import name`` where this call was all that used the name."""
    if not isinstance(call.func, cst.Name):
        return []
    name = call.func.value
    uses = [one for one in script.structure.all(cst.Name) if one.value == name]
    for imported in script.structure.all(cst.ImportFrom):
        aliases = () if isinstance(imported.names, cst.ImportStar) else imported.names
        if len(aliases) != 1 or aliases[0].evaluated_alias not in (name, None):
            continue
        alone = [one for one in uses if imported not in script.structure.up(one)] == [call.func]
        if (aliases[0].evaluated_alias or aliases[0].evaluated_name) == name and alone:
            start, end = script.positions.offsets(imported)
            return (
                [Edit(start, end, "pass")]
                if script.structure.function(imported)
                else [_whole_line(script, start, end)]
            )
    return []


def _whole_line(script: Script, start: int, end: int) -> Edit:
    """A top-level statement with its line, where it has one to itself."""
    text = script.source.text
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end) + 1 or len(text)
    alone = not text[first:start].strip() and not text[end:last].strip()
    return Edit(first, last, "") if alone and first == start else Edit(start, end, "pass")
