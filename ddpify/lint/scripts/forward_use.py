"""Which layers of a model its forward pass uses, as far as the project's classes show it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.model_layers import has_parameters
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.values import Class, Function, Instance, Method

_PLAIN = ("torch.nn.Module", "torch.nn.modules.module.Module", "torch.nn.modules.Module")
_LISTING = frozenset(
    "children modules named_children named_modules parameters named_parameters _modules __dict__"
    " get_submodule getattr vars".split()
)


def is_plain(kind: Class) -> bool:
    """Whether a class is the project's own and derives from ``nn.Module`` alone."""
    return all(name in _PLAIN for name in kind.library_bases()) and all(
        value.atoms for value in kind.bases
    )


def own_layers(script: Script, model: Instance) -> dict[str, list[Instance]]:
    """The attributes of a model that surely are layers with parameters."""
    found = {}
    for name, held in model.attributes.items():
        inner = [a for a in held.atoms if isinstance(a, Instance)]
        sure = bool(inner) and len(inner) == len(held.atoms)
        if sure and all(is_model(one) and has_parameters(script, one) for one in inner):
            found[name] = inner
    return found


def idle_layers(script: Script, model: Instance) -> Iterator[Instance]:
    """The layers that a class of the project keeps in attributes of which nothing is read."""
    if not isinstance(model.type, Class) or not is_plain(model.type):
        return
    forward = forward_of(model.type)
    if forward is None or lists_layers(script, forward):
        return
    for name, held in model.attributes.items():
        if not _is_read(script, model.type, name):
            yield from (one for one in held.atoms if isinstance(one, Instance) and is_model(one))


def _is_read(script: Script, kind: Class, name: str) -> bool:
    """Whether an attribute is mentioned beside the places that set it in the class, and in other
    classes that have one of this name.
    """
    places = script.mentions.get(name, ())
    around = {one: _class_around(script, one) for one in places}
    own = {node for one, node in around.items() if _is_set(script, one)}
    return any(
        not _is_set(script, one) and (around[one] is kind.node or around[one] not in own)
        for one in places
    )


def _is_set(script: Script, place: cst.CSTNode) -> bool:
    """Whether a place sets the attribute that it mentions."""
    above = script.structure_of(place).parents.get(place)
    noted = isinstance(above, cst.AnnAssign) and above.target is place
    return noted or isinstance(place, cst.Assign)


def _class_around(script: Script, node: cst.CSTNode) -> cst.ClassDef | None:
    above = script.structure_of(node).up(node)
    return next((one for one in above if isinstance(one, cst.ClassDef)), None)


def forward_of(kind: Class) -> cst.FunctionDef | None:
    """The forward of a class, where it is one function."""
    found = kind.find("forward")
    functions = list(found.of(Function)) if found is not None else []
    if len(functions) != 1 or not isinstance(functions[0].node, cst.FunctionDef):
        return None
    return functions[0].node


def lists_layers(script: Script, function: cst.FunctionDef) -> bool:
    """Whether a function goes over layers without naming them."""
    return any(
        (isinstance(node, cst.Name) and node.value in _LISTING)
        or (isinstance(node, cst.Attribute) and node.attr.value in _LISTING)
        for node in script.reached(function)
    )


def uses_everything(script: Script, model: Instance, depth: int = 8) -> bool:
    """Whether each forward of a model surely uses all of its layers, for the one thing it gives."""
    if depth == 0:
        return False
    if isinstance(model.type, str):
        held = [a for one in model.arguments.values() for a in one.atoms]
        inner = [a for a in held if isinstance(a, Instance) and is_model(a)]
        return model.type.startswith("torch.nn.") and all(
            uses_everything(script, one, depth - 1) for one in inner
        )
    forward = forward_of(model.type)
    if forward is None or not is_plain(model.type) or _gives_several(script, forward):
        return False
    used = _used_always(script, model.type, forward)
    return not _calls_unseen(script, model, forward) and all(
        name in used and all(uses_everything(script, one, depth - 1) for one in inner)
        for name, inner in _assigned(script, model).items()
    )


def _is_seen(held: object) -> bool:
    """Whether a part is one of the project's or of PyTorch's, and no other object's attribute."""
    if isinstance(held, Instance) and isinstance(held.type, str):
        return held.type.startswith("torch.")
    return not isinstance(held, Method)


def _calls_unseen(script: Script, model: Instance, forward: cst.FunctionDef) -> bool:
    """Whether a forward calls a part of its model that is not seen: its layers are its own."""
    unseen = {name for name, held in model.attributes.items() if not any(map(_is_seen, held.atoms))}
    return any(
        isinstance(one, cst.Call)
        and isinstance(one.func, cst.Attribute)
        and one.func.attr.value in unseen
        for one in script.reached(forward)
    )


def _assigned(script: Script, model: Instance) -> dict[str, list[Instance]]:
    """All attributes that may hold layers or parameters; unknown ones count as such."""
    return {
        name: [a for a in held.atoms if isinstance(a, Instance) and is_model(a)]
        for name, held in model.attributes.items()
        if not held.atoms or any(isinstance(a, Instance) for a in held.atoms)
    }


def _gives_several(script: Script, forward: cst.FunctionDef) -> bool:
    """Whether a forward returns more than one tensor, of which a loss may use some."""
    several = (cst.Tuple, cst.List, cst.Dict)
    returns = script.structure_of(forward).inside(forward.body, cst.Return)
    return any(one.value is None or isinstance(one.value, several) for one in returns)


def _used_always(script: Script, kind: Class, forward: cst.FunctionDef) -> set[str]:
    """The attributes that a forward reads under no condition."""
    structure = script.structure_of(forward)
    found = set()
    for node in structure.inside(forward.body, cst.Attribute):
        ours = any(one.type is kind for one in script.instances(node.value))
        asked = isinstance(structure.parents.get(node), (cst.Subscript, cst.Comparison, cst.If))
        tried = script.control.in_try(node)
        if ours and not asked and not tried and not structure.guards(node):
            found.add(node.attr.value)
    return found
