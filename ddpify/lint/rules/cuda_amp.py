"""torch.cuda.amp is deprecated.

## What it does
Looks for `torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler`.

## Why is this bad
They warn at every call since PyTorch 2.4, and will go.

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
from ddpify.understanding.syntax import code_of

_OLD = (
    "torch.cuda.amp.autocast",
    "torch.cuda.amp.GradScaler",
    "torch.cuda.amp.autocast_mode.autocast",
    "torch.cuda.amp.grad_scaler.GradScaler",
)


@rule("cuda-amp", group="deprecated", severity=Severity.STYLE, applies="single distributed other")
def check(script: Script) -> Iterator[Finding]:
    """Calls under the old names."""
    for call in script.calls(*_OLD):
        if script.control.in_try(call):
            continue
        text = code_of(call.func)
        short = text.rsplit(".", 1)[-1]
        yield Finding(
            call,
            f'deprecated since PyTorch 2.4: torch.amp.{short}("cuda")',
            _fix(script, call, text, short),
        )


def _fix(script: Script, call: cst.Call, text: str, short: str) -> Fix | None:
    if text != f"torch.cuda.amp.{short}":
        return None  # imported under another name
    start, end = script.positions.offsets(call.func)
    opening = script.source.text.index("(", end) + 1
    comma = ", " if call.args else ""
    edits = (Edit(start, end, f"torch.amp.{short}"), Edit(opening, opening, f'"cuda"{comma}'))
    return Fix("use torch.amp", edits, Applicability.UNSAFE)
