"""What tests of types tell: ``isinstance(x, torch.Tensor)``, ``type(x) in (tuple, list)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import mapping_classes
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Class,
    Const,
    Data,
    Function,
    Instance,
    QualifiedName,
    ReplicatedTensor,
    Tup,
    Value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

Fits = Callable[[Atom], bool | None]

_TENSOR_TYPES = ("torch.Tensor", "torch.autograd.Variable", "torch.FloatTensor")
_SEQUENCES = {"builtins.tuple", "builtins.list"}
_MAPPINGS = {"builtins.dict", "collections.OrderedDict", "collections.abc.Mapping"}
_SAME = (cst.In, cst.Is, cst.Equal)
_OTHER = (cst.NotIn, cst.IsNot, cst.NotEqual)


def tested(run: RunState, test: cst.BaseExpression) -> tuple[str, Fits, bool] | None:
    """The name that a test asks about, what fits the type, and whether the test holds for that."""
    kind = type(test)
    if kind is cst.Name or kind is cst.Attribute:
        return None  # as most tests
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        found = tested(run, test.expression)
        return None if found is None else (found[0], found[1], not found[2])
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        return _comparison(run, test)
    if isinstance(test, cst.Call) and dotted(test.func) == "isinstance" and len(test.args) == 2:
        return _asked(run, test.args[0].value, test.args[1].value, True)
    return None


def _comparison(run: RunState, test: cst.Comparison) -> tuple[str, Fits, bool] | None:
    left, (target,) = test.left, test.comparisons
    if not isinstance(left, cst.Call) or dotted(left.func) != "type" or len(left.args) != 1:
        return None
    if not isinstance(target.operator, _SAME + _OTHER):
        return None
    return _asked(run, left.args[0].value, target.comparator, isinstance(target.operator, _SAME))


def _asked(
    run: RunState, what: cst.BaseExpression, kind: cst.BaseExpression, holds: bool
) -> tuple[str, Fits, bool] | None:
    fits = _test_of(set(_types(run.seen(kind))))
    return (what.value, fits, holds) if isinstance(what, cst.Name) and fits is not None else None


def _test_of(names: set[str]) -> Fits | None:
    """The test of what types of these names take; None where they are others."""
    if names & set(_TENSOR_TYPES):
        return is_tensor
    if names and names <= _SEQUENCES:
        return is_sequence
    return is_mapping if names and names <= _MAPPINGS else None


def is_shown_listed(run: RunState, call: cst.BaseExpression) -> bool:
    """Whether a call of a name stands where the name is known to be of a tuple or list."""
    given = call.args[0].value if isinstance(call, cst.Call) and call.args else None
    for guard in run.module.structure.guards(call) if isinstance(given, cst.Name) else ():
        found = tested(run, guard.test)
        if found is not None and found[0] == given.value and found[1] is is_sequence:  # type: ignore[union-attr]
            return found[2] is guard.positive
    return False


def _types(kind: Value) -> Iterator[str]:
    """The qualified names of a type, or of those in a tuple or list."""
    for atom in kind.atoms:
        if isinstance(atom, QualifiedName):
            yield atom.name
        elif isinstance(atom, Tup):
            for item in atom.items:
                yield from _types(item)
        elif isinstance(atom, Instance) and atom.type == "list":
            yield from _types(atom.elements)


def is_tensor(atom: Atom) -> bool | None:
    """Whether something is a tensor, as far as is known."""
    if isinstance(atom, ReplicatedTensor) or (
        isinstance(atom, Data) and atom.form is Layout.TENSOR
    ):
        return True
    return False if isinstance(atom, (Tup, Const, Function, Class)) else None


def is_sequence(atom: Atom) -> bool | None:
    """Whether something is a tuple or a list, as far as is known."""
    if isinstance(atom, Tup) or (isinstance(atom, Instance) and atom.type == "list"):
        return True
    if isinstance(atom, Data):
        return None if atom.opaque or atom.form in SEVERAL_TENSORS else False
    return False if isinstance(atom, (Const, Function, Class)) else None


def is_mapping(atom: Atom) -> bool | None:
    """Whether something is a dictionary, as far as is known."""
    if isinstance(atom, Instance):
        known = {"dict": True, "list": False}.get(atom.kind)
        return mapping_classes.is_mapping(atom) or known
    if isinstance(atom, Data):
        return None if atom.opaque or atom.form in SEVERAL_TENSORS else False
    return False if isinstance(atom, (Tup, Const, Function, Class)) else None


def decided(run: RunState, test: cst.BaseExpression) -> bool | None:
    """Whether a test surely holds.

    For a tuple, list or dictionary: of what is one, or is a loss or a count. For None: of what
    the call of a model leaves out, or gives rows for.
    """
    missing = _is_none(run, test)
    if missing is not None:
        return missing
    found = tested(run, test)
    if found is None or found[1] is is_tensor:
        return None
    name, fits, holds = found
    held = run.lookup(name)
    sure = {fits(a) if _is_sure(a) else None for a in held.atoms}
    if len(sure) != 1 or None in sure:
        return None
    return sure.pop() is holds


def _is_none(run: RunState, test: cst.BaseExpression) -> bool | None:
    """The truth of ``targets is None`` in a model's method that is called without, or with them."""
    asked = asked_for_none(test)
    if asked is None or run.frame.call is None or not _is_of_a_model(run):
        return None
    name, positive = asked
    held = run.frame.scope.names.get(name, UNKNOWN)
    rows = all(isinstance(a, Data) for a in held.atoms) and name in run.frame.scope.passed
    if held.constant() is not None and not (held and rows):
        return None
    return (held.constant() is None) is positive


def _is_of_a_model(run: RunState) -> bool:
    """Whether a forward runs, or another method of a model."""
    receiver = run.frame.receiver
    return run.frame.in_forward or (isinstance(receiver, Instance) and run.is_model(receiver))


def asked_for_none(test: cst.BaseExpression) -> tuple[str, bool] | None:
    """The name in ``targets is None``, and whether the test holds for None."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    asked, target = test.left, test.comparisons[0]
    against_none = isinstance(target.comparator, cst.Name) and target.comparator.value == "None"
    if not isinstance(asked, cst.Name) or not against_none:
        return None
    return asked.value, isinstance(target.operator, (cst.Is, cst.Equal))


def _is_sure(atom: Atom) -> bool:
    """Whether its kind is beyond doubt: rows of a batch may turn out to be a list of tensors."""
    return not isinstance(atom, Data) or atom.placement.partial
