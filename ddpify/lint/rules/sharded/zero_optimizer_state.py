"""The state of a sharded optimizer is taken before it is gathered.

## What it does
Looks for `state_dict()` of a `ZeroRedundancyOptimizer` in scripts that never call
`consolidate_state_dict()`.

## Why is this bad
Each rank holds the state of its own parameters. Without the call that gathers them, `state_dict()`
raises `RuntimeError`.

## Example
```python
from torch.distributed.optim import ZeroRedundancyOptimizer
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
if rank == 0:
    torch.save(optimizer.state_dict(), path)
```
```python
from torch.distributed.optim import ZeroRedundancyOptimizer
class Trainer:
    def __init__(self):
        self.steps = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)
    def state(self):
        return {"optimizer": self.steps.state_dict()}
Trainer().state()
```

## Use instead
```python
from torch.distributed.optim import ZeroRedundancyOptimizer
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
optimizer.consolidate_state_dict(to=0)
if rank == 0:
    torch.save(optimizer.state_dict(), path)
```

## Also fine
```python
if rank == 0:
    torch.save(optimizer.state_dict(), path)
```

## References
https://docs.pytorch.org/docs/stable/distributed.optim.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script

_ZERO = "ZeroRedundancyOptimizer"


@rule("zero-optimizer-state", group="checkpoint", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """States of sharded optimizers that nothing gathers."""
    if any(True for _ in script.method_calls("consolidate_state_dict", everywhere=True)):
        return
    for call in script.method_calls("state_dict"):
        assert isinstance(call.func, cst.Attribute)
        held = script.instances(call.func.value)
        if held and all(isinstance(one.type, str) and one.type.endswith(_ZERO) for one in held):
            yield Finding(
                call, "raises RuntimeError: all ranks must consolidate_state_dict() first"
            )
