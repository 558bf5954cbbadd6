"""The state of a sharded model is taken on some ranks only.

## What it does
Looks for `state_dict()` of an FSDP model, or of its optimizer, under a condition on the rank, and
for `torch.save` of a `fully_shard` model's own `state_dict()`.

## Why is this bad
Each rank holds a part. FSDP gathers them all in `state_dict()`: rank 0 waits for the others
forever. With `fully_shard` there is no error: the file holds rank 0's shards and nothing else.

## Example
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
sharded = FSDP(net)
if rank == 0:
    torch.save(sharded.state_dict(), path)
```
```python
from torch.distributed.fsdp import fully_shard
fully_shard(net)
steps = torch.optim.SGD(net.parameters(), lr=0.1)
def save(name):
    torch.save({"model": net.state_dict(), "optimizer": steps.state_dict()}, name)
if dist.get_rank() == 0:
    save(path)
```
```python
from torch.distributed.fsdp import fully_shard
fully_shard(net)
torch.save(net.state_dict(), path)
```

## Use instead
```python
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
fully_shard(net)
options = StateDictOptions(full_state_dict=True, cpu_offload=True)
state = get_model_state_dict(net, options=options)
if rank == 0:
    torch.save(state, path)
```

## Also fine
All ranks gather and rank 0 writes; a wrapper whose every rank has everything; one file for each
rank.
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
sharded = FSDP(net)
state = sharded.state_dict()
if rank == 0:
    torch.save(state, path)
    torch.save(model.module.state_dict(), "plain.pt")
```
```python
from torch.distributed.fsdp import fully_shard
fully_shard(net)
torch.save(net.state_dict(), f"shard{rank}.pt")
```

## References
https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import FSDP
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import ANY_RANK
from ddpify.understanding.values import UNKNOWN, Instance, Params, deep_atoms


@rule(
    "sharded-state-dict-on-rank0", group="checkpoint", severity=Severity.HANG, applies="distributed"
)
def check(script: Script) -> Iterator[Finding]:
    """States of sharded things where not all ranks take part, or only their own part is kept."""
    seen: set[cst.Call] = set()
    for call in script.method_calls("state_dict"):
        assert isinstance(call.func, cst.Attribute)
        held = script.instances(call.func.value)
        if (
            held
            and all(_is_sharded(script, one) for one in held)
            and script.control.on_some_ranks(call)
        ):
            seen.add(call)
            yield Finding(
                call,
                "every rank holds a part of this: the others must take part, or parts are lost",
            )
    for save in script.calls("torch.save"):
        for call in _own_shards(script, save):
            if call not in seen:
                yield Finding(call, "each rank saves its own shards, all to the same file")


def _is_sharded(script: Script, one: Instance) -> bool:
    if one.type == FSDP or script.events(one, "shard"):
        return True
    stepped = [a for a in deep_atoms(one.arguments.get("params", UNKNOWN)) if isinstance(a, Params)]
    return one.role == "optimizer" and any(_is_sharded(script, a.owner) for a in stepped)


def _own_shards(script: Script, save: cst.Call) -> Iterator[cst.Call]:
    """States of ``fully_shard`` models in what a call saves to one path."""
    path = argument(save, "f", 1)
    if path is None or script.flow.sources(path.value, script.module) & ANY_RANK:
        return
    for node in walk(save.args[0].value):
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.args:
            continue
        models = script.instances(node.func.value)
        own = bool(models) and all(
            script.events(one, "shard") and one not in script.wrapped for one in models
        )
        if own and node.func.attr.value == "state_dict":
            yield node
