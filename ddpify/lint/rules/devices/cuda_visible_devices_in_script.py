"""The script hides GPUs from its own ranks.

## What it does
Looks for an assignment to `os.environ["CUDA_VISIBLE_DEVICES"]`.

## Why is this bad
Every rank makes it: with "0" all share one GPU, and rank 1's `set_device(1)` fails.

## Example
```python bare
import os
import torch.distributed as dist
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
dist.init_process_group("nccl")
```

```python bare
import os
import torch
import torch.distributed as dist


def setup():
    dist.init_process_group("nccl")


setup()
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
torch.cuda.set_device(dist.get_rank())
```

```python bare
import os
import torch.distributed as dist
GPU = 0
os.environ["CUDA_VISIBLE_DEVICES"] = str(GPU)
dist.init_process_group("nccl")
```

## Use instead
Set it in the shell that calls torchrun.
```python
torch.cuda.set_device(local_rank)
```

## Also fine
A GPU of its own for each rank, and several, of which there may be one for each.
```python
os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)
```
```python
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
```

After CUDA has started it has no effect at all.
```python bare
import os
import torch
import torch.distributed as dist


def setup():
    if "RANK" not in os.environ:
        return
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


def main():
    setup()
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"


main()
```

## References
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.launches import is_started_as_one_process
from ddpify.lint.scripts.one_number import is_one_number
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.side_effects import VISIBLE, environment_key
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.sources import ANY_RANK

_CHOOSES = frozenset({"torch.cuda.set_device", "torch.accelerator.set_device_index"})


@rule(
    "cuda-visible-devices-in-script",
    group="device",
    severity=Severity.CRASH,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Assignments that every rank makes alike."""
    # A script that nothing starts on several processes shows itself the one GPU that it needs.
    alone = is_started_as_one_process(script)
    sure = Confidence.POSSIBLE if alone else Confidence.LIKELY
    for assign in script.structure.all(cst.Assign):
        if environment_key(script.facts, assign.targets[0].target) != VISIBLE:
            continue
        if script.flow.sources(
            assign.value, script.module
        ) & ANY_RANK or script.control.rank_guards(assign):
            continue
        if _comes_too_late(script, assign):
            continue
        if _names_gpus(script, assign.value) and _is_of_ranks(script, assign):
            yield Finding(
                assign,
                "every rank hides the same GPUs from itself: they share what is left",
                confidence=sure,
            )


def _is_of_ranks(script: Script, assign: cst.Assign) -> bool:
    """Whether ranks run it: what starts them may tell them apart."""
    spawned = script.control.spawned
    return not spawned or any(assign in script.reached(one) for one in spawned)


def _comes_too_late(script: Script, assign: cst.Assign) -> bool:
    """Whether every rank has chosen its GPU before: CUDA does not ask for the variable again."""
    structure, control = script.structure, script.control
    around, end = structure.function(assign), structure.order[assign]
    tests = {guard.test for guard in control.guards(assign)}
    return any(
        structure.function(call) is around
        and structure.order[call] < end
        and {guard.test for guard in control.guards(call)} <= tests
        and any(
            isinstance(one, cst.Call) and script.names(one.func) & _CHOOSES
            for one in script.reached(call)
        )
        for call in structure.all(cst.Call)
    )


def _names_gpus(script: Script, given: cst.BaseExpression) -> bool:
    """Whether a value is a literal GPU, or one out of a list: of several, and of an option, there
    may be one a rank.
    """
    if any(isinstance(one, cst.Subscript) and is_one_number(script, one) for one in walk(given)):
        return True
    held = _text(script, given)
    several = "," if script.strict else ""
    return isinstance(held, str) and held.replace(several, "").replace(" ", "").isdigit()


def _text(script: Script, given: cst.BaseExpression) -> object:
    """A literal text, also as ``str(0)`` and ``f"{0}"``."""
    if isinstance(given, cst.Call) and "builtins.str" in script.names(given.func) and given.args:
        given = given.args[0].value
    if isinstance(given, cst.FormattedString) and len(given.parts) == 1:
        (part,) = given.parts
        given = part.expression if isinstance(part, cst.FormattedStringExpression) else given
    held = script.value(given).constant()
    return str(held) if isinstance(held, int) and not isinstance(held, bool) else held
