"""The process group is asked before it is there.

## What it does
Looks for `get_rank`, `get_world_size`, collectives, `DistributedSampler` and wrappers that run
before `init_process_group`: at import, in default arguments, or above it in the same function.

## Why is this bad
It raises `Default process group has not been initialized`, on every rank, at the start.

## Example
```python bare
import torch
import torch.distributed as dist

RANK = dist.get_rank()

def main():
    dist.init_process_group("nccl")
    print(RANK)

if __name__ == "__main__":
    main()
```
```python bare
import torch
import torch.distributed as dist

def log(text, rank=dist.get_rank()):
    print(rank, text)

dist.init_process_group("nccl")
log("ready")
```
```python bare
import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

def main(dataset):
    sampler = DistributedSampler(dataset)
    dist.init_process_group("nccl")
    return sampler
```

## Use instead
```python bare
import torch
import torch.distributed as dist

def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    print(rank)

if __name__ == "__main__":
    main()
```

## Also fine
A question whether the group is there, a set-up in a function, and a sampler that is told rank and
size.
```python bare
import os
import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

RANK = dist.get_rank() if dist.is_initialized() else 0

def setup():
    dist.init_process_group("nccl")

def is_main():
    return dist.get_rank() == 0

def main(dataset):
    sampler = DistributedSampler(dataset, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
    setup()
    print(dist.get_world_size(), sampler, is_main())

main(list(range(8)))
```
```python bare
import torch
import torch.distributed as dist
from elsewhere import start

start()
RANK = dist.get_rank()

def again():
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
from ddpify.understanding.libraries.distributed import (
    COLLECTIVES,
    INIT_GROUP,
    SAMPLER,
    WRAPPERS,
    has_group,
)
from ddpify.understanding.libraries.runtime_names import INIT, NEEDS_INIT
from ddpify.understanding.syntax import argument, is_main_guard

_INITS = (INIT_GROUP, INIT)
_NEEDS = (COLLECTIVES | {"torch.distributed.get_rank", "torch.distributed.get_world_size"}) - {
    INIT_GROUP
}
_KNOWN = ("torch.", "builtins.", "os.", "sys.", "argparse.", "random.", "numpy.", "time.", "json.",
          "logging.", "math.", "ddpify.", "pathlib.", "datetime.", "torchvision.")  # fmt: skip


@rule(
    "process-group-not-ready",
    group="synchronisation",
    severity=Severity.CRASH,
    applies="distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Calls that need the group, in the order in which each function runs, before it is made."""
    if _made_elsewhere(script):
        return
    for scope in _scopes(script):
        for call in _early(script, scope):
            yield Finding(
                call,
                "the process group is not there yet: this raises"
                f" {'RuntimeError' if script.has_runtime else 'ValueError'} on every rank",
            )


def _scopes(script: Script) -> list[cst.FunctionDef | None]:
    """The code of this file that makes the group, also by functions that it calls."""
    scopes: dict[cst.FunctionDef | None, None] = {}
    todo: list[cst.CSTNode] = [*script.calls(*_INITS, everywhere=True)]
    made = bool(todo)
    while todo:
        node = todo.pop()
        function = script.structure_of(node).function(node)
        if function is None or function in scopes or function in script.control.spawned:
            callers = []
        else:
            callers = [site.node for site in script.control.callers(function)]
        scopes[function] = None
        todo += callers
    own = [one for one in scopes if one is None or one in script.structure.order]
    return [*dict.fromkeys([None, *own])] if made else []


def _made_elsewhere(script: Script) -> bool:
    """Whether importing another file of the project makes the group."""
    return any(
        script.owners[call] is not script.module
        and script.structure_of(call).function(call) is None
        for call in script.calls(*_INITS, everywhere=True)
    )


def _early(script: Script, scope: cst.FunctionDef | None) -> Iterator[cst.Call]:
    """The first calls of a scope, up to what makes the group or is not known."""
    for call in script.structure.all(cst.Call):
        if _scope(script, call) is not scope:
            continue
        if _may_make(script, call):
            return
        unconditional = all(is_main_guard(g.test) for g in script.control.guards(call))
        tried = script.control.in_try(call)
        if unconditional and not tried and _needs_group(script, call):
            yield call


def _scope(script: Script, node: cst.CSTNode) -> cst.FunctionDef | bool | None:
    """The function whose body a node stands in; its defaults and decorators run outside of it."""
    for above, below in script.structure.blocks(node):
        if isinstance(above, cst.Lambda):
            return False
        if isinstance(above, cst.FunctionDef) and below is above.body:
            return above
    return None


def _may_make(script: Script, call: cst.Call) -> bool:
    """Whether a call makes the group, in the project's code or in code that ddpify cannot read."""
    for node in script.reached(call):
        if not isinstance(node, cst.Call):
            continue
        names = script.names(node.func)
        if names & {*_INITS} or (names and not any(name.startswith(_KNOWN) for name in names)):
            return True
        if not script.value(node.func).atoms:
            return True
    return False


def _needs_group(script: Script, call: cst.Call) -> bool:
    names = script.names(call.func)
    if names & (_NEEDS | NEEDS_INIT | set(WRAPPERS)):
        return not has_group(call, names)
    told = argument(call, "rank", 2) is not None and argument(call, "num_replicas", 1) is not None
    return SAMPLER in names and not told
