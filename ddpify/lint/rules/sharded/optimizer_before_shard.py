"""The optimizer holds parameters that sharding replaces.

## What it does
Looks for an optimizer made from a model's parameters before `fully_shard` or
`FullyShardedDataParallel` takes the model over.

## Why is this bad
Sharding replaces the parameters. The optimizer steps the old ones, which nobody uses: the model
never changes, and no error says so.

## Example
```python
from torch.distributed.fsdp import fully_shard
sharded = Net()
steps = torch.optim.Adam(sharded.parameters())
fully_shard(sharded)
```

## Use instead
```python
from torch.distributed.fsdp import fully_shard
sharded = Net()
fully_shard(sharded)
steps = torch.optim.Adam(sharded.parameters())
```

## Also fine
DistributedDataParallel keeps the parameters, and so does FSDP with `use_orig_params=True`.
```python
plain = Net().to(device)
steps = torch.optim.Adam(plain.parameters())
wrapped = DDP(plain, device_ids=[local_rank])
```

## References
https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.facts import Event
from ddpify.understanding.libraries.distributed import FSDP
from ddpify.understanding.syntax import argument


@rule("optimizer-before-shard", group="wrapping", severity=Severity.SILENT, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Optimizers over parameters from before the sharding."""
    for model in script.facts.events:
        early: Event | None = None
        for event in script.events(model, "optimize", "shard", "wrap"):
            if event.kind == "optimize":
                early = event
            elif early is not None and _replaces(script, event):
                if early.site.module is script.module and not _made_again(script, model, event):
                    yield Finding(
                        early.site.node,
                        "made before the model is sharded: it steps parameters that are used no"
                        " more, and the model never changes",
                    )
                break


def _replaces(script: Script, event: Event) -> bool:
    """Whether sharding puts other parameters in the place of the old ones."""
    if event.kind == "shard":
        return True
    call = event.site.node
    if not isinstance(call, cst.Call) or not any(
        one.type == FSDP for one in script.instances(call)
    ):
        return False
    given = argument(call, "use_orig_params")
    return given is None or script.value(given.value).constant() is False


def _made_again(script: Script, model: object, shard: Event) -> bool:
    """Whether another optimizer is made over the sharded parameters."""
    events = script.events(model, "optimize", "shard", "wrap")  # type: ignore[arg-type]
    later = events[events.index(shard) :]
    if any(event.kind == "optimize" for event in later):
        return True
    over = [w for w in script.wraps if w.call is shard.site.node and not w.in_place]
    wrapper = [w.wrapper for w in over]
    return any(script.events(one, "optimize") for one in wrapper)
