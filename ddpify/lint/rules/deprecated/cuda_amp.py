"""torch.cuda.amp is deprecated.

## What it does
Looks for `torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler`.

## Why is this bad
They have warned at every call since PyTorch 2.4, and will be removed.

## Example
```python
scaler = torch.cuda.amp.GradScaler()
```

## Use instead
```python
scaler = torch.amp.GradScaler("cuda")
```

## Also fine
A version for older PyTorch.
```python
try:
    scaler = torch.amp.GradScaler("cuda")
except AttributeError:
    scaler = torch.cuda.amp.GradScaler()
```

## Fix safety
Unsafe: it needs PyTorch 2.3.

## References
https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import code_of, dotted

_OLD = (
    "torch.cuda.amp.autocast",
    "torch.cuda.amp.GradScaler",
    "torch.cuda.amp.autocast_mode.autocast",
    "torch.cuda.amp.grad_scaler.GradScaler",
)
# By position, torch.amp.autocast takes another argument second.
_POSITIONS = {"autocast": ("enabled", "dtype", "cache_enabled")}


@rule(
    "cuda-amp",
    group="deprecated",
    severity=Severity.STYLE,
    applies="single distributed other",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Calls under the old names."""
    found = [one for one in script.calls(*_OLD) if not script.control.in_try(one)]
    said: set[str] = set()
    for call in found:
        short = min(script.names(call.func) & set(_OLD)).rsplit(".", 1)[-1]
        fix = _fix(script, call, short)
        if isinstance(call.func, cst.Name) and call.func.value not in said:
            said.add(call.func.value)
            fix = _imported_fix(script, call.func.value, found)
        message = f'deprecated since PyTorch 2.4: torch.amp.{short}("cuda")'
        yield Finding(call, message, fix)


def _fix(script: Script, call: cst.Call, short: str) -> Fix | None:
    if code_of(call.func) != f"torch.cuda.amp.{short}":
        return None  # imported under another name
    arguments = _arguments(script, call, short)
    if arguments is None:
        return None
    start, end = script.positions.offsets(call.func)
    edits = (Edit(start, end, f"torch.amp.{short}"), *arguments)
    return Fix("use torch.amp", edits, Applicability.UNSAFE)


def _arguments(script: Script, call: cst.Call, short: str) -> list[Edit] | None:
    """The device in front; what stood by its position is named, since the order has changed."""
    if any(one.star for one in call.args):
        return None
    opening = script.source.text.index("(", script.positions.offsets(call.func)[1]) + 1
    edits = [Edit(opening, opening, '"cuda"' + ", " * bool(call.args))]
    positional = [one for one in call.args if one.keyword is None]
    for name, one in zip(_POSITIONS.get(short, ()), positional, strict=False):
        start = script.positions.offsets(one)[0]
        edits.append(Edit(start, start, f"{name}="))
    return edits


def _imported_fix(script: Script, name: str, found: list[cst.Call]) -> Fix | None:
    """``from torch.amp import autocast``, with all calls of the name at once."""
    imports = [
        one
        for one in script.structure.all(cst.ImportFrom)
        if one.module is not None and dotted(one.module) == "torch.cuda.amp" and _brings(one)
    ]
    calls = [one for one in found if isinstance(one.func, cst.Name)]
    used = {one.func for one in calls}
    names = {_own(alias) for one in imports for alias in one.names}  # type: ignore[union-attr]
    others = any(
        one.value in names and one not in used and not _is_imported(script, one)
        for one in script.structure.all(cst.Name)
    )
    if len(imports) != 1 or name not in names or others:
        return None
    module = imports[0].module
    assert module is not None
    edits = [Edit(*script.positions.offsets(module), "torch.amp")]
    for call in calls:
        short = min(script.names(call.func) & set(_OLD)).rsplit(".", 1)[-1]
        made = _arguments(script, call, short)
        if made is None:
            return None
        edits += made
    return Fix("import from torch.amp", tuple(edits), Applicability.UNSAFE)


def _brings(part: cst.ImportFrom) -> bool:
    """Whether nothing else comes with it, which may not be there."""
    return not isinstance(part.names, cst.ImportStar) and all(
        dotted(alias.name) in ("autocast", "GradScaler") for alias in part.names
    )


def _own(alias: cst.ImportAlias) -> str:
    held = alias.asname.name if alias.asname is not None else alias.name
    return held.value if isinstance(held, cst.Name) else ""


def _is_imported(script: Script, name: cst.Name) -> bool:
    return any(isinstance(above, cst.ImportFrom) for above in script.structure.up(name))
