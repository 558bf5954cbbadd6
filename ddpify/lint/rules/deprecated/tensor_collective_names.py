"""Collectives on single tensors under names that are deprecated.

## What it does
Looks for `_all_gather_base` and `_reduce_scatter_base` and, where the project requires PyTorch
2.13 or later, for `all_gather_into_tensor` and `reduce_scatter_tensor`.

## Why is this bad
Each call warns, on every rank, and the names will be removed.

## Example
```python
out = torch.empty(2 * world_size, device=device)
dist._all_gather_base(out, torch.ones(2, device=device))
```
```python recent
out = torch.empty(2 * world_size, device=device)
dist.all_gather_into_tensor(out, torch.ones(2, device=device))
```

## Use instead
```python
out = torch.empty(2 * world_size, device=device)
dist.all_gather_into_tensor(out, torch.ones(2, device=device))
```

## Also fine
A name that is chosen by what the installed version has.
```python recent
out = torch.empty(2 * world_size, device=device)
if hasattr(dist, "all_gather_single"):
    dist.all_gather_single(out, torch.ones(2, device=device))
else:
    dist.all_gather_into_tensor(out, torch.ones(2, device=device))
```

## References
https://docs.pytorch.org/docs/stable/distributed.html#collective-functions
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import code_of

_PRIVATE = {"_all_gather_base": "all_gather_into_tensor",
            "_reduce_scatter_base": "reduce_scatter_tensor"}  # fmt: skip
_PUBLIC = {"all_gather_into_tensor": "all_gather_single",
           "reduce_scatter_tensor": "reduce_scatter_single"}  # fmt: skip


@rule(
    "tensor-collective-names",
    group="deprecated",
    severity=Severity.STYLE,
    applies="distributed other",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Calls under the old names, where the new ones surely are there."""
    for old, new in {**_PRIVATE, **_PUBLIC}.items():
        for call in script.calls(f"torch.distributed.{old}"):
            if _is_chosen(script, call):
                continue
            recent = script.requires_torch(2, 13)
            if old in _PUBLIC and not recent:
                continue
            name = _PUBLIC.get(new, new) if recent else new
            yield Finding(call, f"deprecated: {name}()", _fix(script, call, old, name))


def _is_chosen(script: Script, call: cst.Call) -> bool:
    """Whether the script asks first which name there is."""
    if script.control.in_try(call):
        return True
    words = ("hasattr", "version", "getattr")
    return any(
        word in code_of(guard.test) for guard in script.control.guards(call) for word in words
    )


def _fix(script: Script, call: cst.Call, old: str, new: str) -> Fix | None:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != old:
        return None  # imported under a name of its own
    return script.replace(call.func.attr, new, f"use {new}")
