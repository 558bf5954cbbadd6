"""The wrapper itself is saved, with its process group.

## What it does
Looks for `torch.save` of a DistributedDataParallel object.

## Why is this bad
Loading it needs a process group that is set up already, the same code and the same GPUs. Outside
of a distributed run it fails.

## Example
```python
if rank == 0:
    torch.save(model, path)
```
```python
if rank == 0:
    torch.save({"model": model, "epoch": 3}, path)
```

## Use instead
```python
if rank == 0:
    torch.save(model.module.state_dict(), path)
```

## Also fine
```python
if rank == 0:
    torch.save(net, "net.pt")
    torch.save(model.module, "module.pt")
```

## References
https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script


@rule("whole-module-pickled", group="checkpoint", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Wrappers among what is saved."""
    for call in script.calls("torch.save"):
        for part in _parts(call.args[0].value) if call.args else ():
            if script.is_ddp(part):
                yield Finding(part, "loading this needs a process group and the same set-up")


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What is saved, and what a dictionary, list or tuple of it holds."""
    if isinstance(node, cst.Dict):
        return [one.value for one in node.elements if isinstance(one, cst.DictElement)]
    if isinstance(node, (cst.List, cst.Tuple)):
        return [one.value for one in node.elements]
    return [node]
