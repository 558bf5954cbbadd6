"""One certain GPU is named in code that all ranks run.

## What it does
Looks for `cuda:0`, `.cuda(0)`, `.to(0)`, `set_device(0)` and `device_ids=[0]`, for a bare `"cuda"`
in a script that never says which GPU is the rank's own, and for a wrapped model that
`device_map="auto"` has spread over all GPUs.

## Why is this bad
All ranks of a node share the first GPU: it runs out of memory, or NCCL refuses two ranks on one
GPU, while the others idle.

## Example
```python
net2 = Net().to("cuda:0")
```

```python
from transformers import AutoModel
spread = DDP(AutoModel.from_pretrained("bert-base-uncased", device_map="auto"))
```

## Use instead
```python
net2 = Net().to(device)
```
```python
from transformers import AutoModel
whole = DDP(AutoModel.from_pretrained("bert-base-uncased", device_map={"": local_rank}))
```

## Also fine
Code that one rank runs, and a bare `cuda` after `set_device`.
```python
if rank == 0:
    probe = torch.zeros(1, device="cuda:0")
batch = torch.zeros(1).to("cuda")
```

## Fix safety
Safe with ddpify's runtime, which knows the rank's device. Unsafe elsewhere: the number comes from
LOCAL_RANK, which torchrun sets.

## References
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.rank_gpus import gpu_of_the_rank
from ddpify.lint.scripts.repairs import runtime
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.spread_models import spread_models
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.libraries.object_kinds import is_loss
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.taint.sources import (
    ANY_RANK,
    DEVICES,
    LOCAL_RANK,
    RANK,
    SPAWNED,
    TOLD,
)
from ddpify.understanding.values import Device

_CLUSTERS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_ACCELERATORS = ("cuda", "xpu", "npu", "hpu")
_SET_DEVICE = (
    "torch.cuda.set_device",
    "torch.accelerator.set_device_index",
    "torch.xpu.set_device",
)
# These choose the rank's device where nobody has.
_CHOOSING = (
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
    "torch.distributed.device_mesh.init_device_mesh",
    "torch.distributed.init_device_mesh",
)
_MAKERS = (
    "torch.tensor", "torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn",
    "torch.full", "torch.arange", "torch.randint", "torch.eye",
)  # fmt: skip


@rule(
    "hard-coded-device",
    group="device",
    severity=Severity.CRASH,
    applies="converted distributed",
    fixes="safe unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Literal devices, in every form that names one."""
    several = script.has_runtime or _has_several_ranks_a_node(script)
    trains = script.uses(INIT_GROUP) and script.averages and not _may_have_its_gpu_alone(script)
    if not (script.strict or several or trains):
        return  # a tool that can join a group, and may have one process on each node
    sure = Confidence.CERTAIN if several else Confidence.LIKELY
    for given in spread_models(script):
        message = f"{script.code(given)} spreads the model over all GPUs in each rank"
        yield Finding(given, f"{message}: the wrapper refuses that, or runs out of memory")
    unchosen = False
    for node in _shared(script):
        chosen = script.has_runtime or not _is_current(script, node)
        if chosen or not unchosen:  # one call of set_device() fixes all of them
            text = _message(script, node, chosen)
            yield Finding(node, text, _fix(script, node), confidence=sure)
        unchosen = unchosen or not chosen


def _shared(script: Script) -> Iterator[cst.CSTNode]:
    """The places that name a GPU which all ranks of a node then share, of nested ones the outer."""
    seen: set[cst.CSTNode] = set()
    literals = sorted(_literals(script), key=script.structure.order.__getitem__)
    spread = _with_layers_on_several(script, literals)
    for node in literals:
        if node in seen or any(above in seen for above in script.structure.up(node)):
            continue
        if not _excused(script, node) and _around(script, node) not in spread:
            seen.add(node)
            yield node


def _is_current(script: Script, node: cst.CSTNode) -> bool:
    """Whether a device is named without its number: the GPU that the process has chosen."""
    return not _number(script, node) or not re.search(r"\d", script.code(node, 200))


def _message(script: Script, node: cst.CSTNode, chosen: bool) -> str:
    if chosen:
        what = "is the same GPU for every rank of a node: they share it, and NCCL refuses that"
    else:
        what = "is GPU 0 on every rank: nothing calls torch.cuda.set_device() with the local rank"
    return f"{script.code(node)} {what}"


def _has_several_ranks_a_node(script: Script) -> bool:
    """Whether the project starts a group and counts the ranks of one node.

    Others may have a process a node, which has GPU 0 for itself.
    """
    return script.uses(INIT_GROUP) and any(
        labels & {LOCAL_RANK, SPAWNED} or {RANK, DEVICES} <= labels
        for labels in (*script.flow.labels.values(), *_chosen(script))
    )


def _may_have_its_gpu_alone(script: Script) -> bool:
    """Whether a launcher of clusters starts the ranks, which can show each process one GPU."""
    return any(
        one.evaluated_value in _CLUSTERS
        for structure in script.structures.values()
        for one in structure.all(cst.SimpleString)
    )


def _chosen(script: Script) -> Iterator[set[str]]:
    """What the numbers of GPUs that the project chooses are made of."""
    for call in script.calls(*_SET_DEVICE, "torch.device", everywhere=True):
        for given in call.args:
            yield _origins(script, given.value)


def _origins(script: Script, node: cst.BaseExpression) -> set[str]:
    return script.flow.sources(node, script.owners.get(node, script.module))


def _fix(script: Script, node: cst.CSTNode) -> Fix | None:
    """The device of the rank."""
    dd = runtime(script)
    if dd is None:
        return gpu_of_the_rank(script, node) if isinstance(node, (cst.Call, cst.Arg)) else None
    name = f"{dd}.device()"
    if isinstance(node, cst.Arg):
        return script.replace(node.value, name, f"use {name}")
    if not isinstance(node, cst.Call):
        return None
    if "torch.device" in script.names(node.func):
        return script.replace(node, name, f"use {name}")
    if not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
        return None
    if node.func.attr.value == "cuda":
        return script.replace(node, f"{code_of(node.func.value)}.to({name})", f"use {name}")
    if node.func.attr.value == "to":
        return script.replace(node.args[0].value, name, f"use {name}")
    return None


def _excused(script: Script, node: cst.CSTNode) -> bool:
    """Code that may not run on every rank, and files that nothing is known to call."""
    return (
        script.may_be_guarded(node)
        or _in_other_branch(script, node)
        or _sees_its_gpu_alone(script, node)
        or _is_asked_about(script, node)
        or _is_never_read(script, node)
        or _may_be_another(script, node)
    )


def _with_layers_on_several(script: Script, literals: list[cst.CSTNode]) -> set[cst.CSTNode]:
    """Classes and functions that name several GPUs: a model whose layers are spread over them."""
    numbers: dict[cst.CSTNode, set[str]] = {}
    for node in literals:
        around = _around(script, node)
        if around is not None:
            numbers.setdefault(around, set()).update(_number(script, node))
    return {around for around, found in numbers.items() if len(found) > 1}


def _number(script: Script, node: cst.CSTNode) -> list[str]:
    """The number of the GPU that a literal names, if it names any."""
    return re.findall(r"[:(\[=, ](\d+)", script.code(node, 200))[-1:]


def _around(script: Script, node: cst.CSTNode) -> cst.CSTNode | None:
    """The outermost class or function around a node."""
    above = [x for x in script.structure.up(node) if isinstance(x, (cst.ClassDef, cst.FunctionDef))]
    return above[-1] if above else None


def _is_asked_about(script: Script, node: cst.CSTNode) -> bool:
    """Whether the device is only asked for its memory or its name."""
    above = script.structure.parents.get(script.structure.parents.get(node, node))
    return isinstance(above, cst.Call) and any(
        name.startswith("torch.cuda.") and name not in _SET_DEVICE
        for name in script.names(above.func)
    )


def _is_never_read(script: Script, node: cst.CSTNode) -> bool:
    """``device = torch.device("cuda:0")``, of which nothing is made."""
    above = script.structure.parents.get(node)
    if not isinstance(node, cst.Call) or "torch.device" not in script.names(node.func):
        return False
    if not isinstance(above, cst.Assign) or not isinstance(above.targets[0].target, cst.Name):
        return False
    name = above.targets[0].target
    return not script.strict and not any(
        one.value == name.value and one is not name
        for structure in script.structures.values()
        for one in structure.all(cst.Name)
    )


def _may_be_another(script: Script, node: cst.CSTNode) -> bool:
    """``device = torch.device("cuda:0")``, whose name is also set to a device of the rank."""
    if script.strict:
        return False
    above = script.structure.parents.get(node)
    edges = script.flow.edges_at(above) if above is not None else ()
    targets = {location for edge in edges if edge.value is node for location in edge.targets}
    return any(
        edge.value is not None and bool(_origins(script, edge.value) & ANY_RANK)
        for edge in script.flow.edges_into(targets)
    )


def _sees_its_gpu_alone(script: Script, node: cst.CSTNode) -> bool:
    """Whether GPU 0 is meant where the script shows each rank a GPU of its own."""
    if _number(script, node) not in ([], ["0"]):
        return False
    return any(
        "CUDA_VISIBLE_DEVICES" in script.code(one.target, 200)
        and isinstance(whole, cst.Assign)
        and bool(script.flow.sources(whole.value, script.module) & ANY_RANK)
        for one in script.structure.all(cst.AssignTarget)
        for whole in (script.structure.parents.get(one),)
    )


def _in_other_branch(script: Script, node: cst.CSTNode) -> bool:
    """The branch for runs that are not distributed; only asking for a GPU is no excuse."""
    wrapping = {
        (guard.statement, guard.positive)
        for wrap in script.wraps
        for guard in script.control.guards(wrap.site.node)
    }
    for guard in script.control.guards(node):
        if (guard.statement, guard.positive) in wrapping:
            continue  # a branch that has the wrapper in it
        text = script.code(guard.test, 200)
        if "is_available" not in text or "dist" in text:
            return True
    return False


def _literals(script: Script) -> Iterator[cst.CSTNode]:
    bare = not _knows_its_gpu(script)
    for call in script.structure.all(cst.Call):
        names = script.names(call.func)
        if (
            names & set(_SET_DEVICE)
            and call.args
            and _index(script, call.args[0].value) is not None
        ):
            yield call
        elif "torch.device" in names:
            if _device_object(script, call, bare):
                yield call
        elif call in script.facts.device_moves and isinstance(call.func, cst.Attribute):
            if _move(script, call, bare):
                yield call
        elif names & set(_MAKERS):
            given = argument(call, "device")
            if given is not None and _text(script, given.value, bare):
                yield given
        yield from _device_ids(script, call)


def _knows_its_gpu(script: Script) -> bool:
    """Whether the script says anywhere which GPU is the rank's own."""
    if script.uses(*_SET_DEVICE, *_CHOOSING) or not script.uses(INIT_GROUP):
        return True  # whatever joins the group elsewhere may set the device, too
    for call in script.calls("torch.device", INIT_GROUP, everywhere=True):
        module = script.owners[call]
        known = ANY_RANK if "torch.device" in script.names(call.func) else ANY_RANK - {TOLD}
        if any(script.flow.sources(a.value, module) & known for a in call.args):
            return True
    return "CUDA_VISIBLE_DEVICES" in script.source.text or any(
        script.flow.sources(a.value, script.owners[call]) & ANY_RANK
        for call in script.method_calls("to", "cuda", everywhere=True)
        for a in call.args
    )


def _device_object(script: Script, call: cst.Call, bare: bool) -> bool:
    devices = [a for a in script.value(call).atoms if isinstance(a, Device) and a.accelerator]
    given = call.args[-1].value if call.args else None  # the index, where there is one
    if given is None or script.flow.sources(given, script.module) & ANY_RANK:
        return False
    if any(device.index is not None for device in devices):
        numbered = all(d.index is not None or not bare for d in devices)
        return numbered and (_written(given) or _is_setting(script, given, bare))
    return bare and bool(devices) and _written(given)


def _written(node: cst.CSTNode) -> bool:
    """Whether the expression itself shows the name: an option's default can be overridden."""
    if isinstance(node, cst.IfExp):
        return _written(node.body) or _written(node.orelse)
    return isinstance(node, (cst.SimpleString, cst.Integer))


def _move(script: Script, call: cst.Call, bare: bool) -> bool:
    assert isinstance(call.func, cst.Attribute)
    if call.func.attr.value == "cuda":
        chosen = argument(call, "device", 0)
        if chosen is None:
            return bare and not _is_loss(script, call.func.value)
        return _index(script, chosen.value) is not None
    if call.func.attr.value != "to" or not call.args:
        return False
    given = argument(call, "device", 0)
    if given is None:
        return False
    return _index(script, given.value) is not None or _text(script, given.value, bare)


def _is_loss(script: Script, node: cst.BaseExpression) -> bool:
    """Whether this is a loss without weights: it has no tensors to move."""
    held = script.instances(node)
    return bool(held) and all(is_loss(one) and not one.arguments for one in held)


def _index(script: Script, node: cst.BaseExpression) -> int | None:
    """A literal index of a device."""
    if isinstance(node, cst.Integer):
        return int(node.evaluated_value)
    return None


def _text(script: Script, node: cst.BaseExpression, bare: bool) -> bool:
    """Whether an expression is, in the source, the name of an accelerator."""
    if isinstance(node, cst.IfExp):
        return _text(script, node.body, bare) or _text(script, node.orelse, bare)
    if not isinstance(node, cst.SimpleString):
        return _is_setting(script, node, bare)
    held = script.value(node).constant()
    text = held if isinstance(held, str) else node.evaluated_value
    return _names_one(str(text), bare)


def _names_one(text: str, bare: bool) -> bool:
    """``cuda:0``, and ``cuda`` where no GPU is chosen."""
    kind, _, index = text.partition(":")
    return kind in _ACCELERATORS and (index.isdigit() or (bare and not index))


def _is_setting(script: Script, node: cst.BaseExpression, bare: bool) -> bool:
    """Whether an expression reads a setting that surely is such a name, and no option."""
    if not isinstance(node, (cst.Attribute, cst.Subscript)):
        return False
    held = script.value(node).constant()
    owners = {one.type for one in script.instances(node.value)}
    return isinstance(held, str) and _names_one(held, bare) and "argparse.Namespace" not in owners


def _device_ids(script: Script, call: cst.Call) -> Iterator[cst.CSTNode]:
    given = argument(call, "device_ids")
    if given is None or not isinstance(given.value, cst.List):
        return
    if any(name.endswith("DistributedDataParallel") for name in script.names(call.func)):
        constants = [script.value(e.value).constant() for e in given.value.elements]
        if len(constants) == 1 and isinstance(given.value.elements[0].value, cst.Integer):
            yield given
