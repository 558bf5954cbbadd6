"""Activation checkpointing runs its own backward pass inside the wrapper's.

## What it does
Looks for `torch.utils.checkpoint.checkpoint` without `use_reentrant=False` in models that are, or
will be, wrapped.

## Why is this bad
The reentrant form calls `backward()` within the backward pass. DistributedDataParallel then sees
parameters become ready twice, or never: with `find_unused_parameters`, on the first layer or on a
layer that is used twice, it fails; in some forms gradients are silently not averaged.

## Example
```python
from torch.utils.checkpoint import checkpoint

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 10)
        self.l2 = nn.Linear(10, 2)

    def forward(self, x):
        return self.l2(checkpoint(self.l1, x))

model = DDP(Deep().to(device), device_ids=[local_rank])
```
```python
import torch.utils.checkpoint as cp

def run(layer, x):
    return cp.checkpoint(layer, x, use_reentrant=True)
```
```python
x = torch.utils.checkpoint.checkpoint_sequential([nn.Linear(2, 2)], 1, torch.zeros(1, 2))
```

## Use instead
```python
from torch.utils.checkpoint import checkpoint

def run(layer, x):
    return checkpoint(layer, x, use_reentrant=False)
```

## Also fine
```python
from torch.utils.checkpoint import checkpoint

reentrant = os.environ.get("REENTRANT") == "1"
def run(layer, x):
    return checkpoint(layer, x, use_reentrant=reentrant)

def checkpoint_now(state):
    torch.save(state, f"state{rank}.pt")
```

## When not to follow it
Where PyTorch before 1.11 must be supported, which does not know the argument.

## References
https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.repairs import add_argument
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.syntax import argument, spreads

_CALLS = (
    "torch.utils.checkpoint.checkpoint",
    "torch.utils.checkpoint.checkpoint_sequential",
)


@rule(
    "reentrant-checkpoint",
    group="wrapping",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Checkpoints that are, or may by default be, reentrant."""
    if not any(wrap.wrapper.type == DDP for wrap in script.wraps):
        return
    text = "its own backward runs inside DDP's, which may fail or leave gradients unaveraged"
    for call in script.calls(*_CALLS):
        given = argument(call, "use_reentrant")
        if given is None and not spreads(call):
            fix = add_argument(script, call, "use_reentrant=False", "do not re-enter backward")
            yield Finding(call, text, fix)
        elif given is not None and script.value(given.value).constant() is True:
            fix = script.replace(given.value, "False", "do not re-enter backward")
            yield Finding(given, text, fix)
