"""The global rank is used as the number of a GPU.

## What it does
Looks for `set_device`, `torch.device`, `device_ids`, `.to()`, `.cuda()` and the variable
CUDA_VISIBLE_DEVICES with a global rank.

## Why is this bad
On the second node of 8 GPUs the ranks are 8 to 15, and there are no such GPUs: the job fails as
soon as it grows past one node.

## Example
```python
torch.cuda.set_device(dist.get_rank())
```
```python
class Trainer:
    def __init__(self, model, gpu_id):
        self.model = model.to(gpu_id)
Trainer(net, dist.get_rank())
```
```python
os.environ["CUDA_VISIBLE_DEVICES"] = str(dist.get_rank())
```

## Use instead
```python
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
```

## Also fine
```python
torch.cuda.set_device(rank % torch.cuda.device_count())
```
```python
os.environ["CUDA_VISIBLE_DEVICES"] = f"{dist.get_rank() % 8}"
```
```python
def worker(number):
    torch.cuda.set_device(number)
mp.spawn(worker, nprocs=2)
```

```python
import os
os.environ["MASTER_ADDR"] = "localhost"  # all ranks are on one node
torch.cuda.set_device(rank)
```

A group that is told the local ranks, and so is one of one node.
```python bare
import os
import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl", rank=local_rank, world_size=torch.cuda.device_count())
torch.cuda.set_device(dist.get_rank())
```

## When not to follow it
Where the project's commands start the script with a launcher and none asks for several nodes, the
finding is a possible one: launchers start one node unless they are told more.

## Fix safety
Unsafe: it needs a launcher that sets `LOCAL_RANK`, as torchrun does.

## References
https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.device_numbers import comes_from, device_numbers, is_number, local_rank_at
from ddpify.lint.scripts.rendezvous import meets_on_one_node
from ddpify.lint.scripts.repairs import import_of
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import GROUP_RANK, LOCAL_RANK, RANK, SPAWNED


@rule(
    "global-rank-as-device",
    group="device",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Devices numbered by the global rank."""
    if script.control.starts_ranks and not script.flow.numbers_nodes_apart:
        return
    if not script.strict and script.once(meets_on_one_node):
        return
    said = set[Location]()
    for node in device_numbers(script):
        read = script.flow.locations(node, script.module)
        if read and read <= said:
            continue
        counted = _counts_all(script, node) or _counts_all_in_a_branch(script, node)
        if counted and is_number(script, node):
            said |= read
            yield Finding(
                node,
                f"{script.code(node, 40)} counts all processes: past the first node there is no"
                " such GPU",
                _fix(script, node),
            )


def _counts_all(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a number is the rank among all processes."""
    labels = script.flow.of(node, script.owners.get(node, script.module))
    own = RANK in labels and not labels & {LOCAL_RANK, GROUP_RANK, SPAWNED}
    return own and not _wraps_around(script, node)


def _counts_all_in_a_branch(script: Script, node: cst.BaseExpression) -> bool:
    """``if "RANK" in os.environ: gpu = rank; else: gpu = rank % gpus``: under one launcher."""
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return False
    edges = [
        edge
        for edge in script.flow.edges_into(script.control.locations(node))
        if not edge.offers and edge.value is not None and edge.value in script.owners
    ]
    wrong = [one for one in edges if one.value is not None and _counts_all(script, one.value)]
    return bool(wrong) and all(
        one in wrong or all(_are_branches(script, one.node, other.node) for other in wrong)
        for one in edges
    )


def _are_branches(script: Script, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two places are in branches of one condition, so that no run gets to both."""
    sides = {guard.statement: guard.positive for guard in script.control.guards(one)}
    return any(
        sides.get(guard.statement, guard.positive) is not guard.positive
        for guard in script.control.guards(other)
    )


def _fix(script: Script, node: cst.BaseExpression) -> Fix | None:
    """The local rank, as torchrun sets it."""
    name, edits = import_of(script, "os")
    text = local_rank_at(script, node, name)
    if text is None:
        return None
    start, end = script.positions.offsets(node)
    return Fix("take the local rank", (*edits, Edit(start, end, text)), Applicability.UNSAFE)


def _wraps_around(script: Script, node: cst.BaseExpression) -> bool:
    """``rank % torch.cuda.device_count()``, here or where a copy of the value comes from."""
    return any(
        isinstance(inner, cst.Modulo) for one in comes_from(script, node) for inner in walk(one)
    )
