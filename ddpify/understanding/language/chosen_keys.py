"""Which entries of a dictionary a name may choose where a test has asked about that name.

``models[name]`` behind ``if name.startswith("resnet"):`` is one of those whose keys start so, and
in its ``else`` one of the others: each branch makes the models that it is there for, and not all.
So it is where the texts are known that the name may be.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.three_valued import holds
from ddpify.understanding.values import Const, Instance, Value, join

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def held(run: RunState, node: cst.Subscript, chosen_from: Instance) -> Value:
    """What the entries hold that ``chosen_from[name]`` may choose."""
    part = node.slice[0].slice
    if len(node.slice) != 1 or not isinstance(part, cst.Index):
        return chosen_from.elements
    name, known = dotted(part.value), _known_texts(run.seen(part.value))
    guards = [*_guards(run, node, name)] if name else []
    if not guards and not known:
        return chosen_from.elements
    entries = chosen_from.attributes.items()
    fitting = [one for key, one in entries if _may_be_chosen(key, known, guards, name or "")]
    return join(*fitting) if fitting else chosen_from.elements


def _known_texts(index: Value) -> frozenset[str]:
    """The texts that an index may be, as ``phase`` of ``for phase in ["train", "val"]``."""
    texts = [a.value for a in index.atoms if isinstance(a, Const) and isinstance(a.value, str)]
    return frozenset(texts if len(texts) == len(index.atoms) else ())


def _may_be_chosen(key: str, known: frozenset[str], guards: list[Guard], name: str) -> bool:
    if not key.startswith(("['", '["')):
        return True
    text = literal_eval(key[1:-1])
    if known and text not in known:
        return False
    asked = partial(_asks, name, text)
    return all(holds(guard.test, asked) is not (not guard.positive) for guard in guards)


def _guards(run: RunState, node: cst.CSTNode, name: str) -> Iterator[Guard]:
    """The tests around a node since which a name surely is what it was."""
    structure = run.module.structure
    if any(item.name.value == name for one in structure.all(cst.Global) for item in one.names):
        return
    for guard in structure.guards(node):
        if not isinstance(guard.statement, cst.If) or guard.left_early:
            continue
        changed = (_may_change(part, name) for part in walk(guard.statement))
        if _asks_about(guard.test, name) and not any(changed):
            yield guard


def _asks_about(test: cst.BaseExpression, name: str) -> bool:
    named = (one for one in walk(test) if isinstance(one, (cst.Name, cst.Attribute)))
    return any(dotted(one) == name for one in named)


def _may_change(part: cst.CSTNode, name: str) -> bool:
    """Whether code may give a name, or the attribute of an object, another value."""
    if isinstance(part, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)):
        set_here = (dotted(one) for one in walk(part.target) if isinstance(one, cst.BaseExpression))
        return any(one is not None and f"{name}.".startswith(f"{one}.") for one in set_here)
    given = part.value if isinstance(part, cst.Arg) else None
    if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
        given = part.func.value
    owner = dotted(given) if given is not None else None
    return owner is not None and name.startswith(f"{owner}.")


def _asks(name: str, text: str, test: cst.BaseExpression) -> bool | None:
    """Whether a plain test holds where a name is a text; None for tests of something else."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        return _compares(test.left, test.comparisons[0], name, text)
    return _starts_or_ends(test, name, text) if isinstance(test, cst.Call) else None


def _compares(
    left: cst.BaseExpression, target: cst.ComparisonTarget, name: str, text: str
) -> bool | None:
    """``name == "resnet"``, ``name in ("resnet", "vgg")``, ``"resnet" in name``."""
    operator, right = target.operator, target.comparator
    if dotted(right) == name and isinstance(left, cst.SimpleString):
        inside = str(left.evaluated_value) in text
        return {cst.In: inside, cst.NotIn: not inside}.get(type(operator))
    if dotted(left) != name:
        return None
    texts = _texts(right)
    if texts is None:
        return None
    if isinstance(operator, (cst.Equal, cst.NotEqual)) and isinstance(right, cst.SimpleString):
        return (text in texts) is isinstance(operator, cst.Equal)
    if isinstance(operator, (cst.In, cst.NotIn)) and not isinstance(right, cst.SimpleString):
        return (text in texts) is isinstance(operator, cst.In)
    return None


def _starts_or_ends(test: cst.Call, name: str, text: str) -> bool | None:
    """``name.startswith("resnet")``."""
    asked = test.func
    if not isinstance(asked, cst.Attribute) or dotted(asked.value) != name or len(test.args) != 1:
        return None
    texts = _texts(test.args[0].value)
    if texts is None:
        return None
    ask = {"startswith": text.startswith, "endswith": text.endswith}.get(asked.attr.value)
    return None if ask is None else ask(texts)


def _texts(node: cst.BaseExpression) -> tuple[str, ...] | None:
    """The texts that a literal, or a display of such, gives; None for something else."""
    one = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    if isinstance(one, str):
        return (one,)
    if not isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        return None
    parts = [_texts(element.value) for element in node.elements]
    known = [part for part in parts if part is not None and len(part) == 1]
    return tuple(part[0] for part in known) if len(known) == len(parts) else None
