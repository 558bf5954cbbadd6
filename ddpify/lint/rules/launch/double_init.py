"""The process group is made twice.

## What it does
Looks for two calls of `init_process_group` that run one after the other.

## Why is this bad
The second raises `trying to initialize the default process group twice!` on every rank.

## Example
```python bare
import torch
import torch.distributed as dist

def main():
    dist.init_process_group("nccl")
    dist.init_process_group("gloo")
```
```python bare
import torch
import torch.distributed as dist

def setup():
    dist.init_process_group("nccl")

setup()
dist.init_process_group("nccl")
```

## Use instead
```python bare
import torch
import torch.distributed as dist

def main():
    dist.init_process_group("nccl")
    extra = dist.new_group(backend="gloo")
```

## Also fine
```python bare
import torch
import torch.distributed as dist

def main(gpu):
    if gpu:
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")

def again():
    dist.init_process_group("nccl")
    dist.destroy_process_group()
    dist.init_process_group("nccl")

def once():
    if not dist.is_initialized():
        dist.init_process_group("nccl")
```

## References
https://docs.pytorch.org/docs/stable/distributed.html#initialization
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.taint.call_graph import called

_END = "torch.distributed.destroy_process_group"


@rule("double-init", group="launch", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Unconditional set-ups, one after the other in the same function."""
    first: set[cst.FunctionDef | None] = set()
    if script.uses(_END) and len(script.calls(_END, everywhere=True)) > 1:
        return
    if script.module.path.suffix == ".ipynb" and not script.strict:
        return  # each of its cells may be a script by itself
    sure = [call for call in script.calls(INIT_GROUP, everywhere=True) if _is_sure(script, call)]
    for call in script.structure.all(cst.Call):
        scope = script.structure.function(call)
        if _END in script.names(call.func):
            first.discard(scope)
        elif _surely_makes(script, call, sure):
            if scope in first:
                yield Finding(call, "the process group is there already: this raises ValueError")
            first.add(scope)


def _is_sure(script: Script, call: cst.Call) -> bool:
    """Whether a call is made, and not in vain, where its function runs."""
    return not script.control.guards(call) and not script.control.in_try(call)


def _surely_makes(script: Script, call: cst.Call, sure: list[cst.Call]) -> bool:
    """Whether a call makes the group on every path, itself or by one of the ``sure`` calls."""
    if call in sure:
        return True
    functions = list(called(script.facts, call))
    within = len(functions) == 1 and any(
        functions[0].node in script.structure_of(made).up(made) for made in sure
    )
    return within and _is_sure(script, call)
