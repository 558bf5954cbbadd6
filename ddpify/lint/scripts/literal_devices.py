"""The places of a file that name a GPU: by a number, or by none where no GPU was chosen."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.defaults import Defaults
from ddpify.lint.scripts.one_number import is_numbered_text, is_one_number
from ddpify.lint.scripts.passed_numbers import passed_numbers
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.spread_options import option
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.libraries.object_kinds import is_loss
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import ANY_RANK, TOLD
from ddpify.understanding.values import Const, Data, Device

_ACCELERATORS = ("cuda", "xpu", "npu", "hpu")
SET_DEVICE = (
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


def literal_devices(script: Script) -> Iterator[cst.CSTNode]:
    """The calls and arguments that name a device in the source itself."""
    bare = not _knows_its_gpu(script)
    for call in script.structure.all(cst.Call):
        names = script.names(call.func)
        if names & set(SET_DEVICE) and call.args and is_one_number(script, call.args[0].value):
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
    yield from dict.fromkeys((*_kept_by_names(script, bare), *passed_numbers(script)))


def _kept_by_names(script: Script, bare: bool) -> Iterator[cst.BaseExpression]:
    """The texts of this file to which something is moved by a name: ``device = "cuda:0"``."""
    for call in script.facts.device_moves:
        given = argument(call, "device", 0) if isinstance(call, cst.Call) else None
        for kept in _behind(script, given.value, 3) if given is not None else ():
            if kept in script.structure.order and _text(script, kept, bare):
                yield kept


def _behind(script: Script, node: cst.BaseExpression, depth: int) -> Iterator[cst.BaseExpression]:
    """The texts that a name is set to, also where a function is called with it."""
    if not isinstance(node, cst.Name) or not depth:
        return
    for edge in script.flow.edges_into(script.control.locations(node)):
        texts = (cst.SimpleString, cst.FormattedString, cst.IfExp)
        if isinstance(edge.value, texts) and not edge.offers:
            yield edge.value
        elif edge.value is not None:
            yield from _behind(script, edge.value, depth - 1)


def _device_object(script: Script, call: cst.Call, bare: bool) -> bool:
    devices = [a for a in script.value(call).atoms if isinstance(a, Device) and a.accelerator]
    given = call.args[-1].value if call.args else None  # the index, where there is one
    if given is None or script.flow.sources(given, script.module) & ANY_RANK:
        return False
    listed = len(call.args) > 1 or isinstance(given, cst.Subscript)
    if is_numbered_text(script, given) or (listed and is_one_number(script, given)):
        return True
    if any(device.index is not None for device in devices):
        numbered = all(d.index is not None or not bare for d in devices)
        return numbered and (_written(given) or _is_setting(script, given, bare))
    written = bare and bool(devices) and _written(given)
    return written or _is_setting(script, given, bare)


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
        return is_one_number(script, chosen.value)
    if call.func.attr.value != "to" or not call.args:
        return False
    given = argument(call, "device", 0)
    if given is None:
        return False
    return is_one_number(script, given.value) or _text(script, given.value, bare)


def _is_loss(script: Script, node: cst.BaseExpression) -> bool:
    """Whether this is a loss without weights: it has no tensors to move."""
    held = script.instances(node)
    return bool(held) and all(is_loss(one) and not one.arguments for one in held)


def _text(script: Script, node: cst.BaseExpression, bare: bool) -> bool:
    """Whether an expression is, in the source, the name of an accelerator."""
    if isinstance(node, cst.IfExp):
        return _text(script, node.body, bare) or _text(script, node.orelse, bare)
    if is_numbered_text(script, node):
        return True
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
    """Whether an expression reads a setting that surely is such a name, or has it by default."""
    if not isinstance(node, (cst.Attribute, cst.Subscript)) or _is_of_batch(script, node):
        return False
    owners = {one.type for one in script.instances(node.value)}
    if "argparse.Namespace" in owners:
        return _is_default_of_all(script, node, bare)
    held = script.value(node).constant()
    texts = {held} if isinstance(held, str) else Defaults(script, script.flow, ()).values(node)
    return bool(texts) and all(isinstance(one, str) and _names_one(one, bare) for one in texts)


def _is_of_batch(script: Script, node: cst.Attribute | cst.Subscript) -> bool:
    """``x.device``: where samples are was chosen where they were moved."""
    return any(True for _ in script.value(node.value).of(Data))


def _is_default_of_all(script: Script, node: cst.BaseExpression, bare: bool) -> bool:
    """``--device`` with the default ``cuda:0``: a launcher gives all ranks the same options."""
    texts = [one.value for one in script.value(node).atoms if isinstance(one, Const)]
    numbered = [one for one in texts if isinstance(one, str) and _names_one(one, bare)]
    by_rank = script.flow.sources(node, script.owners.get(node, script.module)) & ANY_RANK
    return bool(texts) and numbered == texts and not by_rank


def _device_ids(script: Script, call: cst.Call) -> Iterator[cst.CSTNode]:
    """Where a list of GPUs that a wrapper gets has one number, also by a name."""
    made = call.func
    if "functools.partial" in script.names(made) and call.args:
        made = call.args[0].value
    if not any(name.endswith("DistributedDataParallel") for name in script.names(made)):
        return
    given, told = argument(call, "device_ids", 1), option(script, call, "device_ids", 1)
    for one in _lists(script, told, 3) if told is not None else ():
        if len(one.elements) == 1 and is_one_number(script, one.elements[0].value):
            yield given if given is not None and one is given.value else one


def _lists(script: Script, node: cst.BaseExpression, depth: int) -> Iterator[cst.List | cst.Tuple]:
    """``[0] if gpu else None``, also by a name: the lists of this file that it may be."""
    if isinstance(node, (cst.List, cst.Tuple)):
        if node in script.structure.order:
            yield node
    elif isinstance(node, cst.IfExp):
        yield from _lists(script, node.body, depth)
        yield from _lists(script, node.orelse, depth)
    elif isinstance(node, (cst.Name, cst.Attribute)) and depth:
        for edge in script.flow.edges_into(script.control.locations(node)):
            if edge.value is not None and not edge.offers:
                yield from _lists(script, edge.value, depth - 1)


def _knows_its_gpu(script: Script) -> bool:
    """Whether anything may choose the rank's own GPU as the current one: what moves one tensor to
    it does not.
    """
    if script.uses(*SET_DEVICE, *_CHOOSING) or not script.uses(INIT_GROUP):
        return True  # whatever joins the group elsewhere may set the device, too
    if "CUDA_VISIBLE_DEVICES" in script.source.text:
        return True
    return any(
        script.flow.sources(a.value, script.owners[call]) & (ANY_RANK - {TOLD})
        for call in script.calls(INIT_GROUP, "torch.cuda.device", everywhere=True)
        for a in call.args
        if a.keyword is None or a.keyword.value in ("device", "device_id")
    )
