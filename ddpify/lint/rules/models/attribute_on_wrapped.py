"""An attribute of the model is asked of its wrapper.

## What it does
Looks for attributes and methods that are used on a DistributedDataParallel object, and that only
the model inside has: one of the project, or one that code makes which is not seen.

## Why is this bad
The wrapper has none of the model's own attributes: this raises `AttributeError`. They are behind
`.module`.

## Example
```python
print(model.l1.weight.shape)
```
```python
class Trainer:
    def __init__(self, net):
        self.net = DDP(net)

    def cost(self):
        return self.net.penalty()

Trainer(Net()).cost()
```
```python
class Trainer:
    def __init__(self, net):
        self.net = net
        self.net = DDP(self.net)

    def cost(self):
        return self.net.penalty()

Trainer(Net()).cost()
```

## Use instead
```python
print(model.module.l1.weight.shape)
```

## Also fine
What the wrapper has itself, questions whether it has something, and setting an attribute.
```python
model.train()
model.epoch = 3
if hasattr(model, "penalty"):
    model.penalty()
size = getattr(model, "l1", None)
model.zero_grad()
for name, p in model.named_parameters():
    print(name)
```
```python
plain = Net()
plain.penalty()
```
What is asked before the model is wrapped, or in runs of one process.
```python
class Trainer:
    def __init__(self, net):
        self.net = net
        self.cost()
        self.net = DDP(self.net)

    def cost(self):
        return self.net.penalty()

Trainer(Net())
```
```python
def save(net, scaler):
    if scaler is not None:
        torch.save(net.module.state_dict(), path)
    else:
        net.penalty()

scaler = torch.amp.GradScaler("cuda")
if rank == 0:
    save(model, scaler)
```
```python
def cost(net, use_ddp):
    if use_ddp:
        return net.module.penalty()
    else:
        return net.penalty()

maybe = Net()
use_ddp = world_size > 1
if use_ddp:
    maybe = DDP(maybe)
cost(maybe, use_ddp)
```

## References
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.ruled_out import is_ruled_out
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.wrapped_here import wrappers_here
from ddpify.understanding.libraries.distributed import DDP, held_model, is_wrapper
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import UNKNOWN, Class, Instance

_OF_MODULES = frozenset(
    "add_module apply bfloat16 buffers children compile cpu cuda device device_ids dim dump_patches"
    " double eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule"
    " half ipu join load_state_dict logger modules module mtia named_buffers named_children"
    " named_modules named_parameters no_sync output_device parameters process_group reducer"
    " register_backward_hook register_buffer register_comm_hook register_forward_hook"
    " register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook"
    " register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module"
    " register_parameter register_state_dict_post_hook register_state_dict_pre_hook"
    " require_backward_grad_sync require_forward_param_sync requires_grad_ scatter gather"
    " set_extra_state set_submodule share_memory state_dict static_graph to to_empty train training"
    " type xpu zero_grad find_unused_parameters broadcast_buffers bucket_bytes_cap"
    " gradient_as_bucket_view mixed_precision device_type is_multi_device_module".split()
)


@rule(
    "attribute-on-wrapped",
    group="wrapping",
    severity=Severity.CRASH,
    applies="distributed",
    fixes="safe",
)
def check(script: Script) -> Iterator[Finding]:
    """Reads of what only the model inside has."""
    for node in script.structure.all(cst.Attribute):
        name = node.attr.value
        if name in _OF_MODULES or name.startswith("_"):
            continue
        wrappers = wrappers_here(script, node.value)
        if not wrappers or any(one.type != DDP for one in wrappers):
            continue
        seen = all(_inside_has(one, name) for one in wrappers)
        if not (seen or all(map(_is_unseen, wrappers))) or _is_set(script, node, name):
            continue
        if not _is_asked_for(script, node) and not is_ruled_out(script, node):
            sure = seen and script.is_ddp(node.value)
            text = f"{code_of(node.value)}.module"
            fix = script.replace(node.value, text, "ask the model inside")
            yield Finding(
                node,
                f"the wrapper has no {name!r}, its module has: this raises AttributeError",
                fix,
                confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
            )


def _inside_has(wrapper: Instance, name: str) -> bool:
    """Whether the model inside surely is one of the project's that has the attribute."""
    held = (held_model(wrapper) or UNKNOWN).atoms
    return bool(held) and all(
        isinstance(a, Instance)
        and isinstance(a.type, Class)
        and (name in a.attributes or a.type.find(name) is not None)
        for a in held
    )


def _is_unseen(wrapper: Instance) -> bool:
    """Whether code that is not seen makes the model inside: what it has, the wrapper has not."""
    held = (held_model(wrapper) or UNKNOWN).atoms
    return bool(held) and all(isinstance(a, Instance) and isinstance(a.type, str) for a in held)


def _is_set(script: Script, node: cst.Attribute, name: str) -> bool:
    """Whether this, or another place, gives the wrapper an attribute of this name."""
    if any(name in one.attributes for one in script.instances(node.value) if is_wrapper(one)):
        return True
    return isinstance(
        script.structure.parents.get(node), (cst.AssignTarget, cst.Del, cst.AugAssign)
    )


def _is_asked_for(script: Script, node: cst.Attribute) -> bool:
    """Whether the script finds out first what it has, or takes the error."""
    if script.control.in_try(node):
        return True
    asking = ("hasattr", "isinstance", "getattr", "type(")
    return any(word in code_of(g.test) for g in script.control.guards(node) for word in asking)
