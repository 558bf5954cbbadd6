"""The number of GPUs of one node stands for the number of ranks.

## What it does
Looks for `torch.cuda.device_count()` as a divisor of what was reduced over the ranks, and as a
factor of the learning rate.

## Why is this bad
On more than one node, or with fewer ranks than GPUs, the numbers differ: averages and learning
rates are wrong by that factor, without an error.

## Example
```python
loss = criterion(model(torch.zeros(4, 10)), torch.zeros(4).long()).detach()
dist.all_reduce(loss)
loss /= torch.cuda.device_count()
```
```python
ngpus = torch.cuda.device_count()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * ngpus)
```

## Use instead
```python
loss = criterion(model(torch.zeros(4, 10)), torch.zeros(4).long()).detach()
dist.all_reduce(loss)
loss /= dist.get_world_size()
```

## Also fine
The index of a GPU, the work of one node, and a script that starts one process for each GPU.
```python
device = torch.device("cuda", rank % torch.cuda.device_count())
workers = 16 // torch.cuda.device_count()
nodes = world_size // torch.cuda.device_count()
```
```python bare
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank):
    dist.init_process_group("nccl", rank=rank, world_size=torch.cuda.device_count())
    x = torch.ones(1).cuda(rank)
    dist.all_reduce(x)
    x /= torch.cuda.device_count()

mp.spawn(main, nprocs=torch.cuda.device_count())
```

## When not to follow it
Where the project's commands start the script with a launcher and none asks for several nodes, the
finding is a possible one: launchers start one node unless they are told more.

## References
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.get_world_size
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.divisions import divisions
from ddpify.lint.scripts.group_state import is_joined
from ddpify.lint.scripts.rendezvous import meets_on_one_node
from ddpify.lint.scripts.repairs import spelled
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import DEVICES, WORLD

_MESSAGE = "counts the GPUs of one node, not the ranks: wrong by a factor on several nodes"


@rule(
    "world-size-from-device-count",
    group="launch",
    severity=Severity.SILENT,
    applies="distributed",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Averages and learning rates over the GPUs of a node."""
    if script.control.spawned or (not script.strict and script.once(meets_on_one_node)):
        return
    for _, top, bottom in divisions(script):
        reduced = script.flow.locations(top, script.module) & script.flow.sanitized
        if _counts_gpus(script, bottom) and reduced:
            yield _finding(script, bottom)
    for call in script.calls(INIT_GROUP):
        given = argument(call, "world_size", 3)
        if given is not None and _counts_gpus(script, given.value):
            yield Finding(given, _MESSAGE)
    for factor in _rate_factors(script):
        if _counts_gpus(script, factor):
            yield _finding(script, factor)


def _rate_factors(script: Script) -> Iterator[cst.BaseExpression]:
    """Both sides of the arithmetic that learning rates are given as."""
    for optimizer in script.facts.optimizers:
        call = optimizer.site
        rate = argument(call, "lr", 1) if isinstance(call, cst.Call) else None
        if rate is None or optimizer.module is not script.module:
            continue
        if isinstance(rate.value, cst.BinaryOperation):
            yield from (rate.value.left, rate.value.right)


def _counts_gpus(script: Script, node: cst.BaseExpression) -> bool:
    labels = script.labels(node)
    return DEVICES in labels and WORLD not in labels and not isinstance(node, cst.BinaryOperation)


def _finding(script: Script, node: cst.BaseExpression) -> Finding:
    dist = spelled(script, "torch.distributed")
    fix = None
    if dist is not None and is_joined(script.control, node):
        fix = script.replace(node, f"{dist}.get_world_size()", "ask the process group")
    return Finding(node, _MESSAGE, fix)
