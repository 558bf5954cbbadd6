"""Options say which rank a process is, where torchrun would.

## What it does
Looks for `init_process_group(rank=..., world_size=...)` with a rank from the command line, in a
script that starts no processes itself and reads nothing of what torchrun sets.

## Why is this bad
Each process must be started by hand with a number of its own. Under torchrun all of them have the
same options: every rank says that it is rank 0, and they wait for the others forever.
The finding is certain where some file starts the script with torchrun, and possible elsewhere:
people do start each process by hand.

## Example
```python bare
# torchrun --nproc_per_node 8 train.py
import argparse
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--world-size", type=int, default=1)
args = parser.parse_args()
dist.init_process_group(
    "nccl", init_method="tcp://10.0.0.1:23456", rank=args.rank, world_size=args.world_size
)
```

## Use instead
```python bare
import torch.distributed as dist

dist.init_process_group("nccl")
```

## Also fine
```python bare
import os
import torch.distributed as dist

dist.init_process_group("nccl", rank=int(os.environ["SLURM_PROCID"]), world_size=2)
```

## Fix safety
Unsafe: the script then needs torchrun to start it. The options stay, without effect.

## References
https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Applicability, Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.rendezvous import is_started_by_launcher, is_told_by_option
from ddpify.lint.scripts.repairs import drop_arguments
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import INIT_GROUP


@rule(
    "rendezvous-by-hand",
    group="launch",
    severity=Severity.HANG,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Groups that are joined under a number from the command line."""
    if script.control.spawned:
        return
    for call in script.calls(INIT_GROUP):
        if not is_told_by_option(script, call):
            continue
        edits = drop_arguments(script, call, "rank", "world_size", "init_method")
        launched = is_started_by_launcher(script)
        title = "take rank, world size and address from torchrun"
        yield Finding(
            call,
            "torchrun gives every rank the same options: all say that they are this one",
            Fix(title, tuple(edits), Applicability.UNSAFE) if edits else None,
            confidence=Confidence.CERTAIN if launched else Confidence.POSSIBLE,
        )
