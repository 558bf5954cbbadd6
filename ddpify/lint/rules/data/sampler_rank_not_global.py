"""A DistributedSampler is given a rank or a size that is that of one node.

## What it does
Looks for `DistributedSampler(rank=...)` with a local rank, and `num_replicas=...` with the number
of GPUs of the node or a literal. In a training on several ranks, a literal rank is found as well.

## Why is this bad
On several nodes, ranks of different nodes read the same part of the data, and other parts are
never read. With a literal rank, all ranks read one part.

## Example
```python
sampler = DistributedSampler(dataset, num_replicas=torch.cuda.device_count(), rank=local_rank)
```

## Use instead
```python
sampler = DistributedSampler(dataset)
```

## Also fine
```python
sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
```

## Fix safety
Safe: without the arguments the sampler asks the process group.

## When not to follow it
With groups of ranks that share a model, where the data is split among the groups. Where the
project's commands start the script with a launcher and none asks for several nodes, a rank or a
size that is that of one node is a possible finding.

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.datasets import samplers
from ddpify.lint.scripts.group_state import is_joined
from ddpify.lint.scripts.rendezvous import meets_on_one_node
from ddpify.lint.scripts.repairs import drop_argument, spelled
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import SAMPLER, splits
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import LOCAL_RANK, RANK, SPAWNED, WORLD


@rule(
    "sampler-rank-not-global",
    group="data",
    severity=Severity.SILENT,
    applies="distributed",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Samplers with a local rank, a node's number of GPUs, or a literal rank."""
    one_node = not script.strict and script.once(meets_on_one_node)
    for call in script.calls(SAMPLER, "torch.utils.data.DistributedSampler"):
        ranks = argument(call, "rank", 2)
        if ranks is not None and isinstance(ranks.value, cst.Integer):
            if _feeds_all_ranks(script, call):
                message = f"every rank trains on the part of rank {script.code(ranks.value, 40)}"
                yield Finding(ranks, message, _fix(script, call, ranks))
            continue  # else one certain part, whoever asks for it
        for one in (argument(call, "num_replicas", 1), ranks):
            if (
                one is None
                or one_node
                or (script.control.starts_ranks and not script.flow.numbers_nodes_apart)
                or not any(map(splits, script.instances(call)))
            ):
                continue
            if not _is_of_a_node(script, one) or _gives_all_ranks(script, ranks):
                continue
            yield Finding(
                one,
                f"{script.code(one.value, 40)} is that of one node: on several, ranks read the"
                " same data and miss the rest",
                _fix(script, call, one),
            )


def _feeds_all_ranks(script: Script, call: cst.Call) -> bool:
    """Whether all ranks train on what a sampler chooses, and average their gradients."""
    if not script.averages or script.control.on_some_ranks(call):
        return False
    used = {one for loader in script.training_loaders for one in samplers(loader)}
    return any(one in used and splits(one) for one in script.instances(call))


def _gives_all_ranks(script: Script, ranks: cst.Arg | None) -> bool:
    """``for rank in range(2)``: one process looks at what each of the ranks would get."""
    loops = script.structure.loops(ranks) if ranks is not None else []
    counted = {
        location
        for loop in loops
        if isinstance(loop, cst.For)
        for name in walk(loop.target)
        if isinstance(name, cst.Name)
        for location in script.control.locations(name)
    }
    return ranks is not None and bool(script.flow.locations(ranks.value, script.module) & counted)


def _is_of_a_node(script: Script, given: cst.Arg) -> bool:
    labels = script.labels(given.value)
    if LOCAL_RANK in labels and not labels & {RANK, SPAWNED}:
        return True
    module = script.owners.get(given, script.module)
    one_node = WORLD not in labels and script.flow.made_of.counts_gpus(given.value, module)
    counted = one_node or isinstance(given.value, cst.Integer)
    return counted and given.keyword is not None and given.keyword.value == "num_replicas"


def _fix(script: Script, call: cst.Call, given: cst.Arg) -> Fix | None:
    """Without the argument; where the number of parts stays given, with the group's rank."""
    title = "let the sampler ask the process group"
    if given.keyword is None or not is_joined(script.control, call):
        return None
    stays = [one for one in script.arguments(call, "num_replicas") if one is not given]
    dist = spelled(script, "torch.distributed")
    if given.keyword.value == "rank" and stays and not _is_of_a_node(script, stays[0]):
        return script.replace(given.value, f"{dist}.get_rank()", title) if dist else None
    return Fix(title, (drop_argument(script, call, given),))
