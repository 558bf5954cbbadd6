"""Whether a file may be one to which this script saves a state from main memory."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.file_acts import file_names
from ddpify.lint.scripts.in_main_memory import is_made_in_memory, moves_to_memory
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.paths import WRITTEN, named_by
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.file_names import FileNames


def may_be_saved_from_memory(script: Script, path: cst.BaseExpression) -> bool:
    """Whether anything that is saved from main memory may go to a path."""
    saves = script.calls("torch.save", everywhere=True)
    return any(
        _saves_from_memory(script, one) and not _is_elsewhere(script, one, path) for one in saves
    )


def _is_elsewhere(script: Script, save: cst.Call, path: cst.BaseExpression) -> bool:
    """Whether the names of both files are known, and are not the same."""
    saved = named_by(save, WRITTEN["torch.save"])
    if saved is None:
        return False
    names = file_names(script)
    places = [(one, script.owners[one]) for one in (saved, path)]
    known = [_last_parts(names, *one) for one in places]
    return all(known) and known[0].isdisjoint(known[1])


def _last_parts(names: FileNames, node: cst.BaseExpression, module: ModuleFile) -> set[str]:
    """What the names of files are, if nothing of them is unknown."""
    ends = {text.rsplit("/", 1)[-1] for text in names.texts(node, module) or ()}
    return ends if all(one and "{}" not in one for one in ends) else set()


def _saves_from_memory(script: Script, call: cst.Call) -> bool:
    """``torch.save({k: v.cpu() for ...}, f)``, also by a name; FSDP's state that is offloaded; the
    state of a model that was put there before. One tensor is no state.
    """
    if not call.args:
        return False
    saved = call.args[0].value
    whole = (saved, *_made(script, saved))
    parts = [saved, *(x for inner in walk(saved) for x in _made(script, inner))]
    inside = [inner for one in whole for inner in _but_tensors(script, one)]
    return (
        any(moves_to_memory(script, inner) for inner in inside)
        or any(is_made_in_memory(script, inner) for one in parts for inner in walk(one))
        or any(_is_offloaded(script, one) for one in parts)
    )


def _but_tensors(script: Script, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes of what is saved, but for tensors, alone or as entries beside others."""
    if isinstance(node, cst.Call) and any(script.value(node).data):
        return
    if isinstance(node, cst.Dict):
        for element in node.elements:
            yield from _but_tensors(script, element.value)
        return
    yield from walk(node)


def _is_offloaded(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a policy around the place that makes a state puts it into main memory."""
    return any(
        moves_to_memory(script, inner)
        for item in _settings_around(script, node)
        for part in (item, *(x for name in walk(item) for x in _made(script, name)))
        for inner in walk(part)
    )


def _made(script: Script, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What a name or an attribute was set to."""
    if not isinstance(node, (cst.Name, cst.Attribute)) or node not in script.owners:
        return []
    locations = script.flow.locations(node, script.owners[node])
    return [edge.value for edge in script.flow.edges_into(locations) if edge.value is not None]


def _settings_around(script: Script, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """``FSDP.state_dict_type(model, kind, policy)``, which says how states are made within it."""
    above = script.structure_of(node).up(node)
    items = [item.item for one in above if isinstance(one, cst.With) for item in one.items]
    return [one for one in items if "state_dict_type" in code_of(one)]
