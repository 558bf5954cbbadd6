"""The script hides GPUs from its own ranks.

## What it does
Looks for an assignment to `os.environ["CUDA_VISIBLE_DEVICES"]`.

## Why is this bad
Every rank makes it: with "0" all share one GPU, and rank 1's `set_device(1)` fails. After CUDA has
started it has no effect at all.

## Example
```python
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
```

## Use instead
Set it in the shell that calls torchrun.
```python
torch.cuda.set_device(local_rank)
```

## Also fine
```python
os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)
```

## References
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.kinds import SINGLE
from ddpify.lint.registry import Finding, rule
from ddpify.lint.script import Script
from ddpify.understanding.labels.origins import ANY_RANK


@rule(
    "cuda-visible-devices-in-script",
    group="device",
    severity=Severity.CRASH,
    applies="single distributed",
)
def check(script: Script) -> Iterator[Finding]:
    """Assignments that every rank makes alike."""
    for assign in script.structure.all(cst.Assign):
        if environment_key(script, assign.targets[0].target) != "CUDA_VISIBLE_DEVICES":
            continue
        if script.flow.origins(
            assign.value, script.module
        ) & ANY_RANK or script.control.rank_guards(assign):
            continue
        if script.kind == SINGLE:
            yield Finding(
                assign, "this is for the launcher to set: here it hides GPUs from the ranks"
            )
        elif not script.control.spawned and _names_gpus(script, assign.value):
            yield Finding(
                assign,
                "every rank hides the same GPUs from itself: they share the one that is left",
            )


def _names_gpus(script: Script, given: cst.BaseExpression) -> bool:
    """Whether a value is a literal list of GPUs: an option may name one for each rank."""
    held = script.value(given).constant()
    return isinstance(held, str) and held.replace(",", "").replace(" ", "").isdigit()


def environment_key(script: Script, target: cst.BaseExpression) -> str | None:
    """The variable that `os.environ[...]` names; None for another target."""
    if not isinstance(target, cst.Subscript) or "os.environ" not in script.names(target.value):
        return None
    part = target.slice[0].slice
    held = script.value(part.value).constant() if isinstance(part, cst.Index) else None
    if held is ... and isinstance(part, cst.Index) and isinstance(part.value, cst.SimpleString):
        held = part.value.evaluated_value
    return held if isinstance(held, str) else None
