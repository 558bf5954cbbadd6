"""A model that is sharded in place is used like one in a wrapper.

## What it does
Looks for `.module` and `.no_sync()` of a model that went through `fully_shard`.

## Why is this bad
`fully_shard` changes the model itself: there is no wrapper and nothing called `module`. Both raise
`AttributeError`.

## Example
```python
from torch.distributed.fsdp import fully_shard
big = Net()
fully_shard(big)
state = big.module.state_dict()
```
```python
from torch.distributed.fsdp import fully_shard
sharded = fully_shard(Net())
for x, y in loader:
    with sharded.no_sync():
        criterion(sharded(x), y).backward()
```

## Use instead
```python
from torch.distributed.fsdp import fully_shard
big = fully_shard(Net())
for step, (x, y) in enumerate(loader):
    big.set_requires_gradient_sync((step + 1) % 4 == 0)
    criterion(big(x), y).backward()
```

## Also fine
```python
from torch.distributed.fsdp import fully_shard
with model.no_sync():
    criterion(model(torch.zeros(1, 10)), torch.zeros(1).long()).backward()
big = Net()
fully_shard(big)
raw = big.module if hasattr(big, "module") else big
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
from ddpify.understanding.values import Class

_IDIOMS = {"module": "the model itself is sharded", "no_sync": "use set_requires_gradient_sync()"}


@rule("fsdp2-ddp-idioms", group="wrapping", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Attributes that only wrappers have, on models that have none."""
    for node in script.structure.all(cst.Attribute):
        remedy = _IDIOMS.get(node.attr.value)
        held = script.instances(node.value) if remedy is not None else []
        if not held or len(held) != len(script.value(node.value).atoms):
            continue
        sharded = all(
            script.events(one, "shard") and not script.events(one, "wrap") for one in held
        )
        own = any(
            node.attr.value in one.attributes
            or (isinstance(one.type, Class) and one.type.find(node.attr.value) is not None)
            for one in held
        )
        if (
            sharded
            and not own
            and not script.control.guards(node)
            and not script.control.in_try(node)
        ):
            yield Finding(
                node, f"fully_shard makes no wrapper: {remedy}; this raises AttributeError"
            )
