"""The weights of a loss stay in host memory.

## What it does
Looks for losses that are made with a tensor (`weight=`, `pos_weight=`) in host memory, and never
moved, when the model is on a GPU.

## Why is this bad
The loss multiplies its weights with the model's output: on the first batch it raises
`Expected all tensors to be on the same device`.

## Example
```python
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))
```
```python
counts = torch.FloatTensor([1.0, 2.0])
criterion = nn.BCEWithLogitsLoss(pos_weight=counts)
```

## Use instead
```python
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0], device=device))
```

## Also fine
A loss without tensors has no device, and one that is moved takes its tensors along.
```python
criterion = nn.CrossEntropyLoss()
other = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0])).to(device)
third = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))
third.to(device)
fourth = nn.CrossEntropyLoss(torch.tensor([1.0, 2.0]).cuda())
```
```python
counts = torch.tensor([1.0, 2.0])
counts = counts.to(device)
criterion = nn.CrossEntropyLoss(weight=counts)
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.cpu_tensors import accelerated, made_on_cpu
from ddpify.lint.scripts.repairs import add_argument
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument

_LOSSES = tuple(
    f"torch.nn.{name}"
    for name in (
        "CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss MultiLabelSoftMarginLoss"
        " MultiMarginLoss"
    ).split()
)


@rule(
    "loss-tensor-not-on-device",
    group="device",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Losses with tensors that nothing moves."""
    if not accelerated(script):
        return
    for call in script.calls(*_LOSSES):
        if any(script.events(one, "move") for one in script.instances(call)):
            continue
        for given in (argument(call, "weight", 0), argument(call, "pos_weight")):
            made = made_on_cpu(script, given.value) if given is not None else None
            if given is not None and made is not None:
                yield Finding(
                    given,
                    "these weights stay in host memory, the model's output is on the GPU: the first"
                    " batch fails",
                    _fix(script, call, made),
                )


def _fix(script: Script, loss: cst.Call, made: cst.Call) -> Fix | None:
    """Make the tensor where the model goes, if that has a name in the same function."""
    structure = script.structure
    for move in script.facts.device_moves:
        if not isinstance(move, cst.Call) or move not in structure.order:
            continue
        given = argument(move, "device", 0)
        before = structure.order[move] < structure.order[made]
        if given is None or not isinstance(given.value, cst.Name) or not before:
            continue
        if structure.function(move) is structure.function(made):
            if any(name.endswith("Tensor") for name in script.names(made.func)):
                return None  # the old constructors take no device
            code = f"device={given.value.value}"
            return add_argument(
                script, made, code, "make it on the model's device", Applicability.UNSAFE
            )
    return None
