"""The result of a collective that works in place is used as a tensor.

## What it does
Looks for `x = dist.all_reduce(x)` without `async_op=True`.

## Why is this bad
The call gives None: `x` is lost, and the next use fails.

## Example
```python
x = torch.zeros(1, device=device)
x = dist.all_reduce(x)
```

## Use instead
```python
x = torch.zeros(1, device=device)
dist.all_reduce(x)
```

## Also fine
```python
x = torch.zeros(1, device=device)
work = dist.all_reduce(x, async_op=True)
work.wait()
```

## References
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument, code_of, spreads

_IN_PLACE = (
    "torch.distributed.all_reduce",
    "torch.distributed.broadcast",
    "torch.distributed.reduce",
)


@rule(
    "collective-result-misused",
    group="synchronisation",
    severity=Severity.CRASH,
    applies="distributed other",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Assignments of None."""
    for call in script.calls(*_IN_PLACE):
        above = script.structure.parents.get(call)
        if (
            not isinstance(above, cst.Assign)
            or spreads(call)
            or argument(call, "async_op") is not None
        ):
            continue
        if len([a for a in call.args if a.keyword is None]) > 3:
            continue
        yield Finding(
            above, "the collective works in place and gives None", _fix(script, above, call)
        )


def _fix(script: Script, assign: cst.Assign, call: cst.Call) -> Fix | None:
    """Only call it, where the name that is set is the tensor's own: another one may be read."""
    given = argument(call, "tensor", 0)
    if given is None or any(code_of(one.target) != code_of(given.value) for one in assign.targets):
        return None
    return script.replace(assign, code_of(call), "call it for its effect")
