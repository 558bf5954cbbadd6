"""Pipeline parallelism under a name that is gone.

## What it does
Looks for imports from `torch.distributed.pipeline`.

## Why is this bad
PyTorch 2.6 removed it: the import raises `ModuleNotFoundError`.

## Example
```python
from torch.distributed.pipeline.sync import Pipe
```
```python
import torch.distributed.pipeline.sync
```

## Use instead
```python
from torch.distributed.pipelining import ScheduleGPipe, pipeline
```

## Also fine
```python
try:
    from torch.distributed.pipeline.sync import Pipe
except ImportError:
    Pipe = None
```

## References
https://docs.pytorch.org/docs/stable/distributed.pipelining.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.imports import imported_modules
from ddpify.lint.scripts.script import Script

_GONE = "torch.distributed.pipeline"


@rule(
    "removed-pipeline",
    group="deprecated",
    severity=Severity.CRASH,
    applies="single distributed other",
)
def check(script: Script) -> Iterator[Finding]:
    """Imports that fail."""
    for part, module in imported_modules(script):
        if (module == _GONE or module.startswith(f"{_GONE}.")) and not script.control.in_try(part):
            yield Finding(
                part, f"{_GONE} was removed from PyTorch: use torch.distributed.pipelining"
            )
