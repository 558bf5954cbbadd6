"""Only some ranks have the weights that are then sharded.

## What it does
Looks for weights that are loaded under a condition on the rank, before the model goes into FSDP
without `sync_module_states=True`, or into `fully_shard`.

## Why is this bad
Each rank keeps its shard of its own copy. The sharded model is made of rank 0's weights in one
part and of fresh ones in all others, without an error.

## Example
```python
from torch.distributed.fsdp import fully_shard
big = Net()
if rank == 0:
    big.load_state_dict(torch.load(path, map_location="cpu"))
fully_shard(big)
```
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
def build():
    big = Net()
    if dist.get_rank() == 0:
        big.load_state_dict(torch.load(path, map_location="cpu"))
    return FSDP(big, device_id=local_rank)
sharded = build()
```

## Use instead
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
big = Net()
if rank == 0:
    big.load_state_dict(torch.load(path, map_location="cpu"))
sharded = FSDP(big, device_id=local_rank, sync_module_states=True)
```

## Also fine
The same weights on all ranks, or sent to all before.
```python
from torch.distributed.fsdp import fully_shard
big = Net()
big.load_state_dict(torch.load(path, map_location="cpu"))
fully_shard(big)
```
```python
from torch.distributed.fsdp import fully_shard
big = Net()
if rank == 0:
    big.load_state_dict(torch.load(path, map_location="cpu"))
for p in big.parameters():
    dist.broadcast(p.data, 0)
fully_shard(big)
```

## References
https://docs.pytorch.org/docs/stable/fsdp.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.facts import Event
from ddpify.understanding.libraries.distributed import FSDP
from ddpify.understanding.libraries.runtime_names import WRAP
from ddpify.understanding.syntax import argument

_SENDERS = (
    "torch.distributed.broadcast",
    "torch.distributed._broadcast_coalesced",
    "torch.distributed.checkpoint.state_dict.set_model_state_dict",
    WRAP,
)


@rule(
    "fsdp-unsynchronised-init",
    group="wrapping",
    severity=Severity.SILENT,
    applies="distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Loads on some ranks ahead of a sharding that sends nothing."""
    if script.uses(*_SENDERS):
        return
    for model in script.facts.events:
        partial: Event | None = None
        for event in script.events(model, "load", "shard", "wrap"):
            if event.kind == "load":
                partial = event if script.control.on_some_ranks(event.site.node) else None
            elif partial is not None and _shards_alone(script, event):
                if script.owners.get(partial.site.node) is script.module:
                    yield Finding(
                        partial.site.node,
                        "only some ranks load these weights: the others shard what they have, and"
                        " the model is a mixture",
                    )
                break


def _shards_alone(script: Script, event: Event) -> bool:
    """Whether a sharding keeps what each rank has."""
    call = event.site.node
    if event.kind == "shard":
        return True
    if not isinstance(call, cst.Call) or all(one.type != FSDP for one in script.instances(call)):
        return False
    given = argument(call, "sync_module_states")
    return given is None or script.value(given.value).constant() is False
