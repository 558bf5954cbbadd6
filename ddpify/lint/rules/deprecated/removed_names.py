"""A name that PyTorch has removed.

## What it does
Looks for calls and imports of names that are gone: `*_multigpu` collectives,
`torch.distributed.deprecated`, `DistributedDataParallelCPU`, `torch._six`, `clip_grad_norm`.

## Why is this bad
The script fails as soon as it gets there, or at its import.

## Example
```python
x = [torch.zeros(1, device=device)]
dist.all_reduce_multigpu(x)
```

## Use instead
```python
x = torch.zeros(1, device=device)
dist.all_reduce(x)
```

## Also fine
```python
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
```

Code that only old versions run.
```python
if torch.__version__ < "1.13":
    from torch._six import inf
else:
    from torch import inf
```

## References
https://github.com/pytorch/pytorch/releases
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.imports import imported_modules
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.versions import depends_on_version

_CALLS = {
    "torch.distributed.all_reduce_multigpu": "all_reduce",
    "torch.distributed.broadcast_multigpu": "broadcast",
    "torch.distributed.all_gather_multigpu": "all_gather",
    "torch.distributed.reduce_multigpu": "reduce",
    "torch.distributed.reduce_scatter_multigpu": "reduce_scatter",
    "torch.nn.parallel.DistributedDataParallelCPU": "DistributedDataParallel",
    "torch.nn.utils.clip_grad_norm": "clip_grad_norm_",
}
_MODULES = {
    "torch._six": "the standard library",
    "torch.distributed.deprecated": "torch.distributed",
}


@rule(
    "removed-names", group="deprecated", severity=Severity.CRASH, applies="single distributed other"
)
def check(script: Script) -> Iterator[Finding]:
    """Calls and imports that fail."""
    for call in script.calls(*_CALLS):
        name = next(iter(script.names(call.func) & set(_CALLS)), None)
        if name is not None and not _may_be_left_out(script, call):
            yield Finding(call, f"{name} was removed from PyTorch: use {_CALLS[name]}")
    for part, module in imported_modules(script):
        if module in _MODULES and not _may_be_left_out(script, part):
            yield Finding(part, f"{module} was removed from PyTorch: use {_MODULES[module]}")


def _may_be_left_out(script: Script, node: cst.CSTNode) -> bool:
    """Whether a failure is taken care of, or a condition on the version keeps the code away."""
    return script.control.in_try(node) or depends_on_version(script.control, node)
