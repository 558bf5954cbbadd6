"""Half precision under FSDP, with a scaler that knows one rank's shard only.

## What it does
Looks for a plain `GradScaler` beside FSDP with `MixedPrecision(param_dtype=torch.float16)`.

## Why is this bad
The scaler looks for infinities in its own rank's shard. Where one rank finds some and the others
none, one skips the step and the others make it: the model is a mixture.

## Example
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
sharded = FSDP(net, mixed_precision=MixedPrecision(param_dtype=torch.float16))
scaler = torch.amp.GradScaler("cuda")
```
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
half = MixedPrecision(param_dtype=torch.half, reduce_dtype=torch.half)
sharded = FSDP(net, mixed_precision=half)
scaler = torch.cuda.amp.GradScaler()
```

## Use instead
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
sharded = FSDP(net, mixed_precision=MixedPrecision(param_dtype=torch.float16))
scaler = ShardedGradScaler()
```

## Also fine
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
sharded = FSDP(net, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))
scaler = torch.amp.GradScaler("cuda", enabled=False)
```

## References
https://docs.pytorch.org/docs/stable/fsdp.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import FSDP
from ddpify.understanding.libraries.object_kinds import GRAD_SCALERS
from ddpify.understanding.syntax import argument

_POLICIES = ("torch.distributed.fsdp.MixedPrecision", "torch.distributed.fsdp.api.MixedPrecision")
_HALF = {"torch.float16", "torch.half"}


@rule("fsdp-fp16-scaler", group="wrapping", severity=Severity.SILENT, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Plain scalers beside FSDP in half precision."""
    policies = script.calls(*_POLICIES, everywhere=True)
    given = [argument(call, "param_dtype", 0) for call in policies]
    half = any(one is not None and script.names(one.value) & _HALF for one in given)
    if not half or not any(wrap.wrapper.type == FSDP for wrap in script.wraps):
        return
    for call in script.calls(*GRAD_SCALERS):
        enabled = argument(call, "enabled")
        if enabled is None or script.value(enabled.value).constant() is True:
            yield Finding(
                call, "each rank decides by its own shard whether to skip: use ShardedGradScaler"
            )
