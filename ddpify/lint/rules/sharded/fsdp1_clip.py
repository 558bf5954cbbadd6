"""Gradients of a sharded model are clipped by each rank's own norm.

## What it does
Looks for `torch.nn.utils.clip_grad_norm_` on the parameters of a FullyShardedDataParallel object.

## Why is this bad
Each rank holds a shard: its norm is smaller than the whole, and differs between ranks. Every rank
clips differently.

## Example
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
sharded = FSDP(Net())
torch.nn.utils.clip_grad_norm_(sharded.parameters(), 1.0)
```

## Use instead
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
sharded = FSDP(Net())
sharded.clip_grad_norm_(1.0)
```

## Also fine
Models under `fully_shard`, whose norm is that of the whole.
```python
from torch.distributed.fsdp import fully_shard
sharded = Net()
fully_shard(sharded)
torch.nn.utils.clip_grad_norm_(sharded.parameters(), 1.0)
```

## References
https://docs.pytorch.org/docs/stable/fsdp.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import FSDP
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Params


@rule("fsdp1-clip", group="wrapping", severity=Severity.SILENT, applies="distributed", fixes="safe")
def check(script: Script) -> Iterator[Finding]:
    """Clipping that does not see the other shards."""
    for call in script.calls(
        "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_"
    ):
        held = script.value(call.args[0].value).atoms if call.args else ()
        if held and all(isinstance(a, Params) and a.owner.type == FSDP for a in held):
            yield Finding(
                call,
                "each rank clips by the norm of its own shard: use the model's method",
                _fix(script, call),
            )


def _fix(script: Script, call: cst.Call) -> Fix | None:
    source = call.args[0].value
    if (
        not isinstance(source, cst.Call)
        or not isinstance(source.func, cst.Attribute)
        or len(call.args) != 2
    ):
        return None
    if source.func.attr.value != "parameters" or source.args:
        return None
    most = code_of(call.args[1].with_changes(comma=cst.MaybeSentinel.DEFAULT))
    text = f"{code_of(source.func.value)}.clip_grad_norm_({most})"
    return script.replace(call, text, "clip by the norm of the whole")
