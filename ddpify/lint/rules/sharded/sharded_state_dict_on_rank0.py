"""The state of a sharded model is taken on some ranks only.

## What it does
Looks for `state_dict()` of an FSDP model, or of its optimizer, and other calls that gather it, such
as `FSDP.optim_state_dict()` and `get_model_state_dict()`, under a condition on the rank, and for
`torch.save` of a `fully_shard` model's own `state_dict()`.

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

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.branches_of_wrappers import may_be_one_of
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import FSDP
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import ANY_RANK
from ddpify.understanding.values import UNKNOWN, Instance, Params, deep_atoms

_METHODS = ("state_dict", "clip_grad_norm_")
_FUNCTIONS = (
    *(
        f"{FSDP}.{name}"
        for name in (
            "state_dict", "optim_state_dict", "full_optim_state_dict", "sharded_optim_state_dict",
            "summon_full_params", "clip_grad_norm_",
        )
    ),
    *(
        f"torch.distributed.checkpoint.state_dict.get_{name}state_dict"
        for name in ("", "model_", "optimizer_")
    ),
)  # fmt: skip


@rule(
    "sharded-state-dict-on-rank0", group="checkpoint", severity=Severity.HANG, applies="distributed"
)
def check(script: Script) -> Iterator[Finding]:
    """States of sharded things where not all ranks take part, or only their own part is kept."""
    seen: set[cst.Call] = set()
    for call, model in _gathering(script):
        held = script.instances(model)
        sharded = [one for one in held if _is_sharded(script, one)]
        if not sharded or not script.control.on_some_ranks(call):
            continue
        sure = len(sharded) == len(held)
        if sure or may_be_one_of(script, call, model, sharded):
            seen.add(call)
            yield Finding(
                call,
                "every rank holds a part of this: the others must take part, or parts are lost",
                confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
            )
    for save in script.calls("torch.save"):
        for call in _own_shards(script, save):
            if call not in seen:
                yield Finding(call, "each rank saves its own shards, all to the same file")


def _gathering(script: Script) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """The calls that gather a model or its optimizer, with what holds it."""
    for call in script.method_calls(*_METHODS):
        assert isinstance(call.func, cst.Attribute)
        yield call, call.func.value
    for call in script.calls(*_FUNCTIONS):
        given = argument(call, "model", 0) or argument(call, "module", 0)
        if given is not None:
            yield call, given.value


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
