"""DataParallel runs one process for all GPUs.

## What it does
Looks for `torch.nn.DataParallel`.

## Why is this bad
One Python process drives all GPUs of one node: it copies the model at each step, gathers outputs
on GPU 0, and is slower than DistributedDataParallel even on a single node.

## Example
```python single
model = nn.DataParallel(model)
for x, y in loader:
    criterion(model(x), y).backward()
```

## Use instead
```python
model2 = DDP(Net().to(device), device_ids=[local_rank])
```

## Also fine
```python
if isinstance(model, nn.DataParallel):
    model = model.module
```
One device alone, so that a checkpoint's keys keep their `module.`.
```python
model2 = DDP(nn.DataParallel(Net().to(device), device_ids=[local_rank]))
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.structure import Guard
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.taint.sources import DEVICES


@rule("data-parallel", group="wrapping", severity=Severity.SLOW, applies="converted distributed")
def check(script: Script) -> Iterator[Finding]:
    """Calls of DataParallel in scripts that train."""
    for call in script.calls("torch.nn.DataParallel", "torch.nn.parallel.data_parallel"):
        if script.control.is_only_before_spawning(call):
            continue  # no rank is there yet
        guards = script.control.guards(call)
        counted = all(_counts_gpus(script, one.test) for one in guards)
        inside = any(one.site is call for wrap in script.wraps for one in wrap.held)
        if _goes_with_the_group(script, guards) and not inside:
            message = "the ranks train apart: DataParallel averages nothing over the ranks"
            yield Finding(call, message, confidence=Confidence.LIKELY)
        elif counted and not _has_one_device(call):
            yield Finding(call, "one process drives all GPUs, beside the ranks that have one each")


def _goes_with_the_group(script: Script, guards: Sequence[Guard]) -> bool:
    """Whether an option that starts the process group leads here, too: ``if args.distributed:``."""
    starts = script.calls(INIT_GROUP, everywhere=True)
    asked = {(code_of(g.test), g.positive) for one in starts for g in script.control.guards(one)}
    return any((code_of(one.test), one.positive) in asked for one in guards)


def _counts_gpus(script: Script, test: cst.BaseExpression) -> bool:
    """``torch.cuda.device_count() > 1`` alone: nothing keeps it from a distributed run."""
    return isinstance(test, cst.Comparison) and DEVICES in script.labels(test)


def _has_one_device(call: cst.Call) -> bool:
    """``device_ids=[local_rank]``: it does nothing, and checkpoints keep their keys."""
    given = argument(call, "device_ids", 1)
    if given is None or not isinstance(given.value, cst.List) or len(given.value.elements) != 1:
        return False
    only = given.value.elements[0]
    return not isinstance(only, cst.StarredElement) and not isinstance(only.value, cst.Integer)
