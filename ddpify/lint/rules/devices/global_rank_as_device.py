"""The number among all processes is used as the number of a GPU.

## What it does
Looks for `set_device`, `torch.device` and `device_ids` with a global rank.

## Why is this bad
On the second node of 8 GPUs the ranks are 8 to 15, and there are no such GPUs: the job fails as
soon as it grows past one node.

## Example
```python
torch.cuda.set_device(dist.get_rank())
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
def worker(number):
    torch.cuda.set_device(number)
mp.spawn(worker, nprocs=2)
```

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
from ddpify.lint.scripts.repairs import import_of
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
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
    if script.control.spawned:
        return
    for node in _indices(script):
        labels = script.labels(node)
        if (
            RANK in labels
            and not labels & {LOCAL_RANK, GROUP_RANK, SPAWNED}
            and not _wraps_around(script, node)
        ):
            yield Finding(
                node,
                f"{script.code(node, 40)} counts all processes: past the first node there is no"
                " such GPU",
                _fix(script, node),
            )


def _fix(script: Script, node: cst.BaseExpression) -> Fix | None:
    """The local rank, as torchrun sets it; not between the quotes of a text."""
    if any(isinstance(above, cst.FormattedString) for above in script.structure.up(node)):
        return None
    name, edits = import_of(script, "os")
    start, end = script.positions.offsets(node)
    text = f'int({name}.environ["LOCAL_RANK"])'
    return Fix("take the local rank", (*edits, Edit(start, end, text)), Applicability.UNSAFE)


def _wraps_around(script: Script, node: cst.BaseExpression) -> bool:
    """``rank % torch.cuda.device_count()``, here or where a copy of the value comes from."""
    todo, seen = [node], set[cst.CSTNode]()
    while todo:
        one = todo.pop()
        seen.add(one)
        if any(isinstance(inner, cst.Modulo) for inner in walk(one)):
            return True
        locations = script.flow.locations(one, script.owners.get(one, script.module))
        todo += [
            m.value for m in script.flow.edges_into(locations) if m.value and m.value not in seen
        ]
    return False


def _indices(script: Script) -> Iterator[cst.BaseExpression]:
    for call in script.calls("torch.cuda.set_device", "torch.accelerator.set_device_index"):
        if call.args:
            yield call.args[0].value
    for call in script.calls("torch.device"):
        if len(call.args) > 1:
            yield call.args[1].value
        elif call.args and isinstance(call.args[0].value, cst.FormattedString):
            for part in call.args[0].value.parts:
                if isinstance(part, cst.FormattedStringExpression):
                    yield part.expression
    for call in script.calls(DDP):
        given = argument(call, "device_ids", 1)
        if given is not None and isinstance(given.value, cst.List):
            yield from (element.value for element in given.value.elements)
