"""A collective is given something that it cannot send.

## What it does
Looks for `all_reduce`, `broadcast`, `reduce`, `gather` and `all_gather` of Python numbers, and of
tensors in host memory when the backend is NCCL.

## Why is this bad
Collectives take tensors, and NCCL takes those on a GPU: the call raises `TypeError`, or
`No backend type associated with device type cpu`.

## Example
```python
loss = criterion(model(torch.zeros(4, 10)), torch.zeros(4).long())
dist.all_reduce(loss.item())
```
```python
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
dist.all_reduce(total)
```
```python
counts = torch.tensor([1.0, 2.0])
dist.all_reduce(counts)
```

## Use instead
```python
total = 0.0
for x, y in loader:
    total += criterion(model(x), y).item()
summed = torch.tensor(total, device=device)
dist.all_reduce(summed)
```

## Also fine
```python
counts = torch.tensor([1.0, 2.0]).to(device)
dist.all_reduce(counts)
stop = torch.zeros(1, device=device)
dist.broadcast(stop, 0)
```
```python
on_cpu = dist.new_group(backend="gloo")
counts = torch.tensor([1.0, 2.0])
dist.all_reduce(counts, group=on_cpu)
```

## Fix safety
Unsafe: the tensor is made on the current GPU, which other uses of it may not expect.

## References
https://docs.pytorch.org/docs/stable/distributed.html#backends
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.cpu_tensors import is_number, made_on_cpu
from ddpify.lint.scripts.repairs import add_argument
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import INIT_GROUP, has_group
from ddpify.understanding.syntax import argument

_SENT = {
    "torch.distributed.all_reduce": ("tensor", 0),
    "torch.distributed.broadcast": ("tensor", 0),
    "torch.distributed.reduce": ("tensor", 0),
    "torch.distributed.gather": ("tensor", 0),
    "torch.distributed.all_gather": ("tensor", 1),
}


@rule(
    "collective-on-wrong-tensor",
    group="device",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Numbers and tensors of the host that are to be sent."""
    for name, (keyword, position) in _SENT.items():
        short = name.rsplit(".", 1)[-1]
        for call in script.calls(name):
            given = argument(call, keyword, position)
            if given is None:
                continue
            if is_number(script, given.value):
                yield Finding(given, f"{short}() takes tensors: a number raises TypeError")
                continue
            made = made_on_cpu(script, given.value)
            if made is not None and not has_group(call, (name,)) and _only_nccl(script):
                yield Finding(
                    given,
                    f"NCCL sends no tensors of the host: {short}() raises RuntimeError",
                    _fix(script, made),
                )


def _only_nccl(script: Script) -> bool:
    """Whether every process group of the project is one of NCCL."""
    calls = script.calls(INIT_GROUP, everywhere=True)
    backends = [argument(call, "backend", 0) for call in calls]
    return bool(backends) and all(
        one is not None and script.value(one.value).constant() == "nccl" for one in backends
    )


def _fix(script: Script, made: cst.Call) -> Fix | None:
    short = min(script.names(made.func)).rsplit(".", 1)[-1]
    if short == "from_numpy" or short.endswith("Tensor"):
        return None  # takes no device
    return add_argument(script, made, 'device="cuda"', "make it on the GPU", Applicability.UNSAFE)
