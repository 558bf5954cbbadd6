"""FSDP and DTensor from modules that were private.

## What it does
Looks for imports from `torch.distributed._composable.fsdp` and `torch.distributed._tensor`.

## Why is this bad
The names are public now. The private paths are kept for a while only.

## Example
```python
from torch.distributed._composable.fsdp import fully_shard
```
```python
from torch.distributed._tensor import DTensor, Replicate
```

## Use instead
```python
from torch.distributed.fsdp import fully_shard
```

## Also fine
```python
try:
    from torch.distributed.fsdp import fully_shard
except ImportError:
    from torch.distributed._composable.fsdp import fully_shard
```

## References
https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.imports import imported_modules
from ddpify.lint.scripts.script import Script

_PUBLIC = {
    "torch.distributed._composable.fsdp": "torch.distributed.fsdp",
    "torch.distributed._tensor": "torch.distributed.tensor",
}


@rule(
    "private-paths",
    group="deprecated",
    severity=Severity.STYLE,
    applies="single distributed other",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Imports through private modules."""
    for part, module in imported_modules(script):
        if module not in _PUBLIC or script.control.in_try(part):
            continue
        fix = None
        if isinstance(part, cst.ImportFrom) and part.module is not None:
            title, new = "import from the public module", _PUBLIC[module]
            fix = script.replace(part.module, new, title, Applicability.UNSAFE)
        yield Finding(part, f"public since PyTorch 2.6: {_PUBLIC[module]}", fix)
