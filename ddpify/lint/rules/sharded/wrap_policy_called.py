"""A policy for FSDP is called where it should be handed over.

## What it does
Looks for calls of `size_based_auto_wrap_policy` and its like that give only its settings.

## Why is this bad
FSDP itself calls the policy for every layer. Called without a layer, it raises `TypeError`.

## Example
```python
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
sharded = FSDP(net, auto_wrap_policy=size_based_auto_wrap_policy(min_num_params=100_000))
```
```python
import functools
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
policy = transformer_auto_wrap_policy(transformer_layer_cls={nn.TransformerEncoderLayer})
```

## Use instead
```python
import functools
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
policy = functools.partial(size_based_auto_wrap_policy, min_num_params=100_000)
sharded = FSDP(net, auto_wrap_policy=policy)
```

## Also fine
A policy of one's own that asks the library's.
```python
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
def policy(module, recurse, nonwrapped_numel):
    return size_based_auto_wrap_policy(module, recurse, nonwrapped_numel, min_num_params=1000)
```

## References
https://docs.pytorch.org/docs/stable/fsdp.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.repairs import spelled
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument, code_of, spreads

_POLICIES = tuple(
    f"torch.distributed.fsdp.wrap.{name}"
    for name in (
        "size_based_auto_wrap_policy",
        "transformer_auto_wrap_policy",
        "lambda_auto_wrap_policy",
    )
)


@rule(
    "wrap-policy-called",
    group="wrapping",
    severity=Severity.CRASH,
    applies="distributed other",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Policies that are called without a layer."""
    for call in script.calls(*_POLICIES):
        if argument(call, "module", 0) is None and not spreads(call):
            yield Finding(
                call,
                "a policy is handed over, not called: this raises TypeError",
                _fix(script, call),
            )


def _fix(script: Script, call: cst.Call) -> Fix | None:
    functools = spelled(script, "functools")
    if functools is None:
        return None
    settings = ", ".join(
        code_of(one.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for one in call.args
    )
    code = f"{functools}.partial({code_of(call.func)}, {settings})"
    return script.replace(call, code, "hand the policy over with its settings")
