"""The GPU is used before the rank has chosen its own.

## What it does
Looks for `.cuda()`, `.to("cuda")`, `device="cuda"` and the like that run before
`torch.cuda.set_device`.

## Why is this bad
Until the rank has chosen, "cuda" is GPU 0 of the node. All ranks make their tensors and a context
there: it runs out of memory, or the model meets its data on another device.

## Example
```python
def main():
    net = Net().cuda()
    torch.cuda.set_device(local_rank)
    return DDP(net, device_ids=[local_rank])
```
```python
def main():
    device = torch.device("cuda")
    x = torch.zeros(4, 10, device=device)
    net = Net().to("cuda")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return DDP(net)(x)
```
```python
def main():
    model = nn.Linear(2, 2)
    start = torch.load("start.pt", map_location="cuda")
    torch.cuda.set_device(local_rank)
    model.load_state_dict(start)
```

## Use instead
```python
def main():
    torch.cuda.set_device(local_rank)
    net = Net().cuda()
    return DDP(net, device_ids=[local_rank])
```

## Also fine
A device with its number, and questions about the GPUs that are there.
```python
def main():
    available = torch.cuda.is_available()
    device = torch.device("cuda", local_rank)
    net = Net().to(device)
    torch.cuda.set_device(device)
    return DDP(net, device_ids=[local_rank]) if available else net
```
```python
def build():
    return Net().cuda()

def main():
    torch.cuda.set_device(local_rank)
    return DDP(build())
```

## References
https://github.com/pytorch/examples/issues/969
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Const, Device

_SET_DEVICE = ("torch.cuda.set_device", "torch.accelerator.set_device_index")


@rule("cuda-before-set-device", group="device", severity=Severity.SLOW, applies="distributed")
def check(script: Script) -> Iterator[Finding]:
    """Uses of the current GPU above the call that chooses it, in the same function."""
    structure = script.structure
    for chosen in script.calls(*_SET_DEVICE):
        if any(not guard.left_early for guard in script.control.guards(chosen)):
            continue
        function = structure.function(chosen)
        for call in structure.all(cst.Call):
            if structure.order[call] > structure.order[chosen]:
                break
            if structure.function(call) is function and _uses_current(script, call):
                yield Finding(
                    call, 'every rank does this on GPU 0: "cuda" is that until set_device is called'
                )
                break


def _uses_current(script: Script, call: cst.Call) -> bool:
    """Whether a call puts something on the GPU that is current."""
    if call in script.facts.device_moves and isinstance(call.func, cst.Attribute):
        if call.func.attr.value == "cuda":
            return not call.args
        given = argument(call, "device", 0)
        return given is not None and _is_current(script, given.value)
    for name in ("device", "map_location"):
        given = argument(call, name)
        library = any(one.startswith("torch.") for one in script.names(call.func))
        if given is not None and library and _is_current(script, given.value):
            return True
    return False


def _is_current(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression surely is an accelerator without a number."""
    if script.flow.sources(node, script.module):
        return False
    atoms = script.value(node).atoms
    return bool(atoms) and all(
        (isinstance(a, Device) and a.accelerator and a.index is None)
        or (isinstance(a, Const) and a.value == "cuda")
        for a in atoms
    )
