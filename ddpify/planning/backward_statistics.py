"""What a backward of the script's own computes over samples, which are a rank's own then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, dotted, names_of

_AVERAGING = frozenset("mean std var median norm amax amin max min quantile".split())
_OF_A_TENSOR = frozenset("shape size device dtype ndim dim".split())


def over_rows(
    module: ModuleFile, made: cst.ClassDef, rows: Iterable[int]
) -> Iterator[tuple[cst.Call, str]]:
    """The calls in the backward of a class that compute something over samples, with their names.

    ``rows``: which arguments of its forward are a rank's samples.
    """
    backward = _method(module, made, "backward")
    if backward is None:
        return
    given = set(_parameters(backward)[1:])
    names = _spread(module, backward, given | set(_saved(module, made, backward, set(rows))))
    for call in walk(backward.body):
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            name = call.func.attr.value
            if name in _AVERAGING and _is_over_rows(module, call, name, names):
                yield call, name


def _method(module: ModuleFile, made: cst.ClassDef, name: str) -> cst.FunctionDef | None:
    defined = module.structure.inside(made.body, cst.FunctionDef)
    return next((one for one in defined if one.name.value == name), None)


def _parameters(function: cst.FunctionDef) -> list[str]:
    return [one.name.value for one in function.params.params]


def _saved(
    module: ModuleFile, made: cst.ClassDef, backward: cst.FunctionDef, rows: set[int]
) -> Iterator[str]:
    """The names that a backward gives to samples, or what is made of them, of its forward."""
    forward = _method(module, made, "forward")
    parameters = _parameters(forward)[1:] if forward is not None else []
    own = {name for number, name in enumerate(parameters) if number in rows}
    kept = [call for call in walk(made.body) if _keeps(call)]
    single = forward is not None and len(kept) == 1 and kept[0] in set(walk(forward))
    known = _spread(module, forward, own) if single and forward is not None else None
    saved = [argument.value for argument in kept[0].args] if single else []  # type: ignore[attr-defined]
    for node in walk(backward.body):
        if isinstance(node, cst.Assign) and _takes_saved(node.value):
            for place, name in enumerate(n for t in node.targets for n in names_of(t.target)):
                of_rows = known is None or place >= len(saved)
                if of_rows or (known and _names(module, saved[place]) & known):
                    yield dotted(name) or ""


def _keeps(node: cst.CSTNode) -> bool:
    named = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return named and node.func.attr.value == "save_for_backward"  # type: ignore[attr-defined]


def _takes_saved(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == "saved_tensors"


def _spread(module: ModuleFile, function: cst.FunctionDef, names: set[str]) -> set[str]:
    """These names, and those of what is made of them."""
    found = set(names)
    for node in walk(function.body):
        if isinstance(node, cst.Assign) and _names(module, node.value) & found:
            targets = (dotted(n) for t in node.targets for n in names_of(t.target))
            found.update(name for name in targets if name)
    return found


def _names(module: ModuleFile, node: cst.BaseExpression) -> set[str]:
    """The names whose tensors an expression is made of; sizes of one are not made of it."""
    return {
        one.value
        for one in walk(node)
        if isinstance(one, cst.Name)
        and getattr(getattr(module.parents.get(one), "attr", None), "value", "") not in _OF_A_TENSOR
    }


def _is_over_rows(module: ModuleFile, call: cst.Call, name: str, names: set[str]) -> bool:
    """Whether a call computes one number, or one for each place in a sample, of rows."""
    owner = call.func.value  # type: ignore[attr-defined]
    function = dotted(owner) in ("torch", "torch.linalg")
    operand = call.args[0].value if function and call.args else owner
    if not _names(module, operand) & names:
        return False
    place = function + (name == "norm")
    given = argument(call, "dim", place) or argument(call, "axis")
    dims = given.value if given is not None else None
    listed = [e.value for e in dims.elements] if isinstance(dims, (cst.Tuple, cst.List)) else [dims]
    first = any(isinstance(one, cst.Integer) and one.value == "0" for one in listed)
    return dims is None or first
