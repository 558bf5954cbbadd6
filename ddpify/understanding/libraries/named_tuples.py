"""Classes of tuples with named elements that a call makes: ``namedtuple("Pair", "first second")``.

They are what a class of these fields is that derives from ``typing.NamedTuple``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords
from ddpify.understanding.values import (
    UNKNOWN,
    Class,
    Instance,
    QualifiedName,
    Scope,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.project import ModuleFile
    from ddpify.understanding.run_state import RunState


def made(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """The class that ``collections.namedtuple`` makes; unknown where its fields are not known."""
    names = _names(args[1] if len(args) > 1 else kwargs.get("field_names", UNKNOWN))
    if not names or not all(name.isidentifier() for name in names):
        return UNKNOWN
    return value(_class(node, run.module, names))


def _names(fields: Value) -> tuple[str, ...]:
    text = fields.constant()
    if isinstance(text, str):
        return tuple(text.replace(",", " ").split())
    held = fields.atoms[0] if len(fields.atoms) == 1 else None
    items = held.items if isinstance(held, Tup) else ()
    if isinstance(held, Instance) and held.type == "list" and "*" not in held.attributes:
        items = tuple(held.attributes.values())
    texts = [item.constant() for item in items]
    return tuple(text for text in texts if isinstance(text, str))


@lru_cache(maxsize=256)
def _class(made_at: cst.BaseExpression, module: ModuleFile, names: tuple[str, ...]) -> Class:
    """The same class each time that the call is interpreted."""
    shown = "class Fields(NamedTuple):\n" + "".join(f"    {name}: object\n" for name in names)
    node = cst.parse_statement(shown)
    assert isinstance(node, cst.ClassDef)
    return Class(node, module, Scope(kind="class"), [value(QualifiedName("typing.NamedTuple"))])
