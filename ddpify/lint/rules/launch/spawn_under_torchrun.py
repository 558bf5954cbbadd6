"""The script starts its own processes, and reads what only torchrun sets.

## What it does
Looks for `mp.spawn` of a function that joins a process group, in a script that reads `LOCAL_RANK`
or `RANK` from the environment without asking whether it is there.

## Why is this bad
Under torchrun each of N processes starts N more, and they fight over GPUs and ports. Under plain
`python` the variable is missing: KeyError.

## Example
```python bare
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(index):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")

if __name__ == "__main__":
    mp.spawn(main, nprocs=torch.cuda.device_count())
```
```python bare
import os
import torch
import torch.distributed as dist
from torch.multiprocessing import spawn

RANK = int(os.environ["RANK"])

def setup(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)

def worker(rank, size):
    setup(rank, size)

spawn(worker, args=(2,), nprocs=2)
```

## Use instead
```python bare
import os
import torch
import torch.distributed as dist

def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")

if __name__ == "__main__":
    main()
```

## Also fine
A script that sets the variables itself, and one that looks first how it was started.
```python bare
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank):
    os.environ["RANK"] = str(rank)
    dist.init_process_group("nccl", world_size=2)
    print(os.environ["RANK"])

if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
```
```python bare
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank):
    dist.init_process_group("nccl", rank=rank, world_size=2)

if __name__ == "__main__":
    if "LOCAL_RANK" in os.environ:
        main(int(os.environ["LOCAL_RANK"]))
    else:
        mp.spawn(main, nprocs=2)
```

A Slurm task for each node, which starts the ranks of its GPUs.
```python bare
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(gpu, node, count):
    dist.init_process_group("nccl", rank=node * count + gpu, world_size=2 * count)

if __name__ == "__main__":
    node = int(os.environ["SLURM_PROCID"])
    count = torch.cuda.device_count()
    mp.spawn(main, nprocs=count, args=(node, count))
```

## References
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import INIT_GROUP, SPAWNS
from ddpify.understanding.syntax import is_main_guard
from ddpify.understanding.values import Function


@rule("spawn-under-torchrun", group="launch", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Spawned ranks in scripts for a launcher."""
    reads = [node for node in script.structure.all(cst.Subscript) if _is_of_launcher(script, node)]
    if not any(not _depends(script, node) for node in reads) or _sets_it(script, reads):
        return
    for call in script.calls(*SPAWNS):
        if not _depends(script, call) and _joins(script, call):
            yield Finding(
                call,
                "starts processes of its own, but reads the variables of torchrun: there are N"
                " times N of them, or none finds its rank",
            )


def _is_of_launcher(script: Script, node: cst.Subscript) -> bool:
    """``os.environ["RANK"]`` or its like; a Slurm task may well start the ranks of its node."""
    if "os.environ" not in script.names(node.value):
        return False
    index = node.slice[0].slice
    key = script.value(index.value).constant() if isinstance(index, cst.Index) else None
    return key in ("RANK", "LOCAL_RANK")


def _depends(script: Script, node: cst.CSTNode) -> bool:
    """Whether a node runs under any condition, or where an error is taken."""
    if any(not is_main_guard(guard.test) for guard in script.control.guards(node)):
        return True
    return script.control.in_try(node)


def _sets_it(script: Script, reads: list[cst.Subscript]) -> bool:
    """Whether the script itself sets one of these variables."""
    parents = script.structure.parents
    return any(isinstance(parents.get(node), cst.AssignTarget) for node in reads)


def _joins(script: Script, call: cst.Call) -> bool:
    functions = [a for one in call.args for a in script.value(one.value).of(Function)]
    return any(
        name == INIT_GROUP
        for function in functions
        for name, _ in script.collectives(function.node)
    )
