"""Whether something takes the ``module.`` off the keys of a file that a wrapper's state goes into.

What is done to another file, or for another model, says nothing about this one.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.unwrapped import takes_out, wrapper_of
from ddpify.understanding.libraries.distributed import WRAPPERS, is_wrapper
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Instance

_STRIPPERS = ("torch.nn.modules.utils.consume_prefix_in_state_dict_if_present",)


def is_expected(script: Script, save: cst.Call, saved: cst.BaseExpression) -> bool:
    """Whether what is saved may be loaded into a wrapped model, or freed of the prefix first.

    Args:
        script: The script that saves.
        save: The call that writes the file.
        saved: The wrapper whose state it is.
    """
    if any(_may_be_for(script, act, save, saved) for act in _acts(script)):
        return True
    return any(
        isinstance(call.func, cst.Attribute)
        and script.is_wrapped(call.func.value)
        and not _is_taken_out(script, call, call.func.value)
        and not _is_other_model(script, call.func.value, saved)
        for call in script.method_calls("load_state_dict", everywhere=True)
    )


def _is_taken_out(script: Script, call: cst.Call, into: cst.BaseExpression) -> bool:
    """Whether the code there takes a model out of its wrapper first, where it has one.

    ``net = model.module if distributed else model``, or ``if hasattr(model, "module"):`` before it.
    """
    edges = script.flow.edges_into(script.flow.locations(into, script.owners[call]))
    made = [into, *(edge.value for edge in edges if edge.value is not None)]
    inside = (one for node in made for one in walk(node) if takes_out(one))
    if any(script.is_wrapped(wrapper_of(one)) for one in inside):
        return True
    asked = (x for g in script.control.guards(call) if not g.positive for x in walk(g.test))
    return any(isinstance(one, cst.Call) and _asks_for_wrapper(script, one) for one in asked)


def _asks_for_wrapper(script: Script, call: cst.Call) -> bool:
    """``hasattr(x, "module")`` or ``isinstance(x, DDP)``."""
    names, given = script.names(call.func), [one.value for one in call.args]
    if len(given) != 2:
        return False
    if "builtins.hasattr" in names:
        return script.value(given[1]).constant() == "module"
    return "builtins.isinstance" in names and bool(script.names(given[1]) & set(WRAPPERS))


def _acts(script: Script) -> Iterator[cst.CSTNode]:
    """The places of the text ``module.``, and calls that take it off."""
    yield from (x for x in script.mentions.get("module.", ()) if isinstance(x, cst.SimpleString))
    yield from script.calls(*_STRIPPERS, everywhere=True)


def _may_be_for(
    script: Script, act: cst.CSTNode, save: cst.Call, saved: cst.BaseExpression
) -> bool:
    """Whether an act stands where states are loaded, in that function or in one that it calls, and
    may be of this file and model.

    Keys are also told apart by this prefix where parameters are frozen, or given to groups.
    """
    structure = script.structure_of(act)
    function = structure.function(act)
    callers = script.control.callers(function) if function is not None else []
    around = {function, *(script.structure_of(x.node).function(x.node) for x in callers)}
    loads = _within(script, script.calls("torch.load", everywhere=True), around)
    puts = _within(script, script.method_calls("load_state_dict", everywhere=True), around)
    if not loads and not puts:
        return function is not None and not callers
    others = [_is_other_file(script, one, save) for one in loads]
    models = [
        _is_other_model(script, one.func.value, saved)
        for one in puts
        if isinstance(one.func, cst.Attribute)
    ]
    return not ((others and all(others)) or (models and all(models)))


def _within(
    script: Script, calls: Iterator[cst.Call] | list[cst.Call], around: set[cst.FunctionDef | None]
) -> list[cst.Call]:
    return [one for one in calls if script.structure_of(one).function(one) in around]


def _is_other_file(script: Script, load: cst.Call, save: cst.Call) -> bool:
    """Whether both paths are known, and not the same."""
    paths = [argument(load, "f", 0), argument(save, "f", 1)]
    texts = [script.value(one.value).constant() for one in paths if one is not None]
    return len(texts) == 2 and all(isinstance(one, str) for one in texts) and len({*texts}) == 2


def _is_other_model(script: Script, into: cst.BaseExpression, saved: cst.BaseExpression) -> bool:
    """Whether a state is loaded into a model that surely is of another class."""
    known, own = _classes(script, into), _classes(script, saved)
    return known is not None and own is not None and known.isdisjoint(own)


def _classes(script: Script, node: cst.BaseExpression) -> set[object] | None:
    """The classes of the models that an expression may be or wrap; None if not all are seen."""
    found: set[object] = set()
    for one in script.value(node).atoms:
        if not isinstance(one, Instance):
            return None
        if is_wrapper(one):
            held = [x for wrap in script.wraps if wrap.wrapper is one for x in wrap.held]
            if not held:
                return None
            found |= {inner.type for inner in held}
        else:
            found.add(one.type)
    return found or None
