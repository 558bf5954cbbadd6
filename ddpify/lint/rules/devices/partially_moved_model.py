"""A part of a model is moved to the GPU, the rest is not.

## What it does
Looks for a model of which only some parts are moved before DistributedDataParallel wraps it.

## Why is this bad
DistributedDataParallel refuses a model whose parameters are on different kinds of devices; without
it, the first forward pass raises `Expected all tensors to be on the same device`.

## Example
```python
whole = Net()
whole.l1.to(device)
replica = DDP(whole)
```

## Use instead
```python
whole = Net()
whole.to(device)
replica = DDP(whole)
```

## Also fine
A model whose parts are all moved, one after the other.
```python
whole = Net()
whole.l1.to(device)
whole.l2.to(device)
replica = DDP(whole)
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.model_structure import layers
from ddpify.understanding.values import Device, Instance

_WITH_PARAMETERS = ("Linear", "Conv", "Norm", "Embedding", "LSTM", "GRU", "RNN", "Bilinear")


@rule("partially-moved-model", group="device", severity=Severity.CRASH, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Wrapped models with layers on the GPU and layers in host memory."""
    for wrap in script.wraps:
        if wrap.wrapper.type != DDP or wrap.site.module is not script.module:
            continue
        left = _left_behind(script, wrap)
        if left is not None:
            yield Finding(
                wrap.call,
                f"a part of the model is on the GPU, {left} is not:"
                " DistributedDataParallel refuses that",
            )


def _left_behind(script: Script, wrap: Wrap) -> str | None:
    """The attribute of a part with parameters that nothing moves, where others are moved."""
    if len(wrap.held) != 1:
        return None
    model = wrap.held[0]
    if script.events(model, "move") or not isinstance(wrap.site.node, cst.Call):
        return None
    parts = {
        name: one
        for name, held in model.attributes.items()
        for one in held.atoms
        if isinstance(one, Instance) and _has_parameters(one)
    }
    moved = {name for name, one in parts.items() if _is_moved(script, one)}
    return next((name for name in parts if name not in moved), None) if moved else None


def _is_moved(script: Script, part: Instance) -> bool:
    """Whether a part, or a layer in it, may be moved to an accelerator."""
    return any(
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and part in script.instances(node.func.value)
        and (
            node.func.attr.value == "cuda"
            or any(isinstance(one, Device) and one.accelerator for one in target.atoms)
        )
        for node, (_, target) in script.facts.device_moves.items()
    )


def _has_parameters(part: Instance) -> bool:
    """Whether a part surely has parameters: PyTorch's layers that have some."""
    return any(
        isinstance(one.type, str)
        and one.type.startswith("torch.nn.")
        and any(word in one.type for word in _WITH_PARAMETERS)
        for one in layers(part)
    )
