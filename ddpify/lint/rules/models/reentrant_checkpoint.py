"""Activation checkpointing runs its own backward pass inside the wrapper's.

## What it does
Looks for `torch.utils.checkpoint.checkpoint` without `use_reentrant=False` in models that are, or
will be, wrapped: with `find_unused_parameters`, on what gets the batch as it is, and on a layer
that is used twice. With `--strict` it reports all of them.

## Why is this bad
The reentrant form calls `backward()` within the backward pass. DistributedDataParallel then sees
parameters become ready twice, or never, and fails. A layer that is checkpointed once, whose input
asks for a gradient, works.

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

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 10)
        self.l2 = nn.Linear(10, 2)

    def forward(self, x):
        return self.l2(cp.checkpoint(self.l1, torch.relu(x), use_reentrant=True))

model = DDP(Deep().to(device), device_ids=[local_rank], find_unused_parameters=True)
```
```python
from torch.utils.checkpoint import checkpoint

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 10)
        self.l2 = nn.Linear(10, 10)

    def forward(self, x):
        x = self.l1(x)
        for _ in range(3):
            x = checkpoint(self.l2, x)
        return x.mean(1)

model = DDP(Deep().to(device), device_ids=[local_rank])
```
```python strict
import torch.utils.checkpoint as cp

def run(layer, x):
    return cp.checkpoint(layer, x, use_reentrant=True)
```
```python strict
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

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 10)
        self.blocks = nn.ModuleList(nn.Linear(10, 10) for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x)
        return x.mean(1)

model = DDP(Deep().to(device), device_ids=[local_rank])
```
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
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.checkpointed import harm
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
    for call in script.calls(*_CALLS):
        given = argument(call, "use_reentrant")
        if given is None and not spreads(call):
            fix = add_argument(script, call, "use_reentrant=False", "do not re-enter backward")
            yield _found(script, call, call, fix)
        elif given is not None and script.value(given.value).constant() is True:
            fix = script.replace(given.value, "False", "do not re-enter backward")
            yield _found(script, call, given, fix)


def _found(script: Script, call: cst.Call, place: cst.CSTNode, fix: Fix | None) -> Finding:
    reason = harm(script, call)
    if reason is None:
        text = "its own backward runs inside DDP's, which fails where a layer comes twice"
        return Finding(place, text, fix, confidence=Confidence.POSSIBLE)
    return Finding(place, reason, fix)
