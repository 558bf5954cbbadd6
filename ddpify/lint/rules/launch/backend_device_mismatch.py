"""The backend does not fit the device that the model is on.

## What it does
Looks for NCCL with a wrapped model on the CPU, and for gloo with one on a GPU.

## Why is this bad
NCCL sends nothing from host memory: making the wrapper fails. gloo copies the gradients of every
step from the GPU to the host and back.

## Example
```python bare
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
device = torch.device("cpu")
model = DDP(torch.nn.Linear(2, 2).to(device))
```
```python bare
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group(backend="gloo")
model = DDP(torch.nn.Linear(2, 2).cuda(local_rank), device_ids=[local_rank])
```

## Use instead
```python bare
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
model = DDP(torch.nn.Linear(2, 2).to(device))
```

## Also fine
```python bare
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("cpu:gloo,cuda:nccl")
model = DDP(torch.nn.Linear(2, 2).cuda(local_rank), device_ids=[local_rank])
```
```python bare
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(2, 2).to("cuda" if torch.cuda.is_available() else "cpu"))
```
```python bare
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
here = f"cuda:{os.environ['LOCAL_RANK']}" if torch.cuda.is_available() else "cpu"
model = DDP(torch.nn.Linear(2, 2).to(torch.device(here)))
```
```python bare
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
fast = dist.new_group(backend="nccl")
model = DDP(torch.nn.Linear(2, 2).cuda(), process_group=fast)
```

## Fix safety
Unsafe: NCCL needs a GPU for each rank, and Linux.

## References
https://docs.pytorch.org/docs/stable/distributed.html#backends
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Const, Device


@rule(
    "backend-device-mismatch",
    group="launch",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="unsafe",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Backends beside the devices of all wrapped models."""
    if len(script.calls(INIT_GROUP, everywhere=True)) != 1 or not script.wraps:
        return
    if any(argument(wrap.call, "process_group", 4) is not None for wrap in script.wraps):
        return  # a group of its own, with a backend of its own
    places = {_place(script, wrap) for wrap in script.wraps}
    for call in script.calls(INIT_GROUP):
        given = argument(call, "backend", 0)
        backend = script.value(given.value).constant() if given is not None else ...
        if given is None or script.control.guards(call):
            continue
        if backend == "nccl" and places == {"cpu"}:
            yield Finding(given, "NCCL sends nothing from the CPU, where the model is: DDP fails")
        elif backend == "gloo" and places == {"gpu"}:
            fix = None
            if isinstance(given.value, cst.SimpleString):
                title = "use NCCL for GPUs"
                fix = script.replace(given.value, '"nccl"', title, Applicability.UNSAFE)
            yield Finding(
                given, "gloo copies every gradient through host memory: NCCL is for GPUs", fix
            )


def _place(script: Script, wrap: Wrap) -> str | None:
    """ "cpu" or "gpu" where a wrapped model surely is; None where that is not known."""
    moves = [e.site.node for model in wrap.held for e in script.events(model, "move")]
    kinds = {_kind(script, node) for node in moves if node in script.facts.device_moves}
    return next(iter(kinds)) if len(kinds) == 1 else None


def _kind(script: Script, node: cst.CSTNode) -> str | None:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value == "cuda":
            return "gpu"
        given = argument(node, "device", 0)
        atoms = script.value(given.value).atoms if given is not None else ()
        kinds = {_named(atom) for atom in atoms}
        return next(iter(kinds)) if len(kinds) == 1 else None
    return None


def _named(atom: object) -> str | None:
    if isinstance(atom, Device) and not atom.conditional:
        return "gpu" if atom.accelerator else "cpu"
    if isinstance(atom, Const) and isinstance(atom.value, str):
        return {"cuda": "gpu", "cpu": "cpu"}.get(atom.value.split(":")[0])
    return None
