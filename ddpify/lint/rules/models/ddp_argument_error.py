"""DistributedDataParallel is given an argument that it does not have.

## What it does
Looks for keywords that are not in DDP's signature, `timeout` first of all.

## Why is this bad
It raises TypeError. The timeout belongs to `init_process_group`.

## Example
```python
model = DDP(net, device_ids=[local_rank], timeout=timedelta(minutes=30))
```

## Use instead
```python
dist.init_process_group("nccl", timeout=timedelta(minutes=30))
model = DDP(net, device_ids=[local_rank])
```

## Also fine
```python
model = DDP(net, device_ids=[local_rank], static_graph=True, bucket_cap_mb=50)
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpify.lint.diagnostics import Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.repairs import drop_argument
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import DDP

_KNOWN = frozenset(
    "module device_ids output_device dim broadcast_buffers init_sync process_group bucket_cap_mb"
    " find_unused_parameters check_reduction gradient_as_bucket_view static_graph"
    " delay_all_reduce_named_params param_to_hook_all_reduce mixed_precision device_mesh"
    " skip_all_reduce_unused_params forward_sync_buffers batched_grad_copy"
    " bucket_cap_mb_list".split()
)


@rule(
    "ddp-argument-error",
    group="wrapping",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Keywords that DDP refuses."""
    for call in script.calls(DDP):
        for one in call.args:
            if one.keyword is not None and one.keyword.value not in _KNOWN:
                fix = Fix(f"drop {one.keyword.value}", (drop_argument(script, call, one),))
                yield Finding(
                    one,
                    f"DistributedDataParallel has no argument {one.keyword.value!r}: TypeError",
                    fix,
                )
