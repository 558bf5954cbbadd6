"""What a project's classes and functions give again: one object, wherever it is asked for."""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Class, Function

_CACHING = frozenset({"cache", "lru_cache"})


def share_attributes(made: Class) -> bool:
    """Whether the objects of a class may have their attributes in common.

    One that sets ``self.__dict__`` gives them those of another object.
    """
    if made.node not in made.module.structure.order:
        return False  # a class that a function has made, as namedtuple() does
    own = _sets_all_attributes(made.module.structure, made.node)
    return own or any(map(share_attributes, made.project_bases()))


@lru_cache(maxsize=1024)
def _sets_all_attributes(structure: Structure, node: cst.ClassDef) -> bool:
    targets = (one.target for one in structure.inside(node, cst.AssignTarget))
    return any(isinstance(one, cst.Attribute) and one.attr.value == "__dict__" for one in targets)


def keeps_results(function: Function) -> bool:
    """Whether a function gives a later call what it has made for an earlier one."""
    node = function.node
    for one in node.decorators if isinstance(node, cst.FunctionDef) else ():
        shown = one.decorator
        name = dotted(shown.func if isinstance(shown, cst.Call) else shown) or ""
        if name.rsplit(".", 1)[-1] in _CACHING:
            return True
    return False
