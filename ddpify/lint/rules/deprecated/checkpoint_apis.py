"""Distributed checkpoints through functions that have successors.

## What it does
Looks for `save_state_dict` and `load_state_dict` of `torch.distributed.checkpoint`, for
`torch.distributed._shard.checkpoint`, and for FSDP's `state_dict_type`.

## Why is this bad
They warn, and will be removed. `dcp.save`, `dcp.load` and `get_model_state_dict` do the same for
every kind of wrapper, and save asynchronously where asked.

## Example
```python
import torch.distributed.checkpoint as dcp
dcp.save_state_dict({"model": net.state_dict()}, dcp.FileSystemWriter("checkpoint"))
```
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import StateDictType
with FSDP.state_dict_type(net, StateDictType.FULL_STATE_DICT):
    state = net.state_dict()
```

## Use instead
```python
import torch.distributed.checkpoint as dcp
dcp.save({"model": net.state_dict()}, checkpoint_id="checkpoint")
```

## Also fine
```python
net.load_state_dict(torch.load(path, map_location="cpu"))
```

## References
https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import FSDP

_NEW_MODEL = "torch.distributed.checkpoint.state_dict.get_model_state_dict"
_OLD = {
    "torch.distributed.checkpoint.save_state_dict": "torch.distributed.checkpoint.save",
    "torch.distributed.checkpoint.load_state_dict": "torch.distributed.checkpoint.load",
    "torch.distributed._shard.checkpoint.save_state_dict": "torch.distributed.checkpoint.save",
    "torch.distributed._shard.checkpoint.load_state_dict": "torch.distributed.checkpoint.load",
    f"{FSDP}.state_dict_type": _NEW_MODEL,
    f"{FSDP}.set_state_dict_type": _NEW_MODEL,
}


@rule("checkpoint-apis", group="deprecated", severity=Severity.STYLE, applies="distributed other")
def check(script: Script) -> Iterator[Finding]:
    """Calls that have successors."""
    for old, new in _OLD.items():
        for call in script.calls(old):
            if not script.control.in_try(call):
                yield Finding(call, f"deprecated: {new}()")
