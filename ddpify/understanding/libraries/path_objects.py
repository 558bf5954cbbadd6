"""What ``pathlib`` gives of paths: other paths, which name files as these do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.values import Instance, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

PATH = "pathlib.Path"
MAKERS = ("pathlib.Path.cwd", "pathlib.Path.home")
_CHANGED = frozenset(
    "joinpath resolve absolute expanduser with_suffix with_name with_stem relative_to rename"
    " replace readlink".split()
)
_LISTED = frozenset("glob rglob iterdir".split())


def attribute(run: RunState, node: cst.BaseExpression, atom: Instance, name: str) -> Value | None:
    """An attribute that is a path, or holds several; None for any other."""
    if atom.type != PATH or name not in ("parent", "parents"):
        return None
    return value(atom) if name == "parent" else _several(run, node, atom)


def made(run: RunState, node: cst.BaseExpression, atom: Instance, name: str) -> Value | None:
    """What a method gives that is a path, or goes through several; None for any other."""
    if atom.type != PATH:
        return None
    if name in _CHANGED:
        return value(atom)
    return _several(run, node, atom) if name in _LISTED else None


def _several(run: RunState, node: cst.BaseExpression, atom: Instance) -> Value:
    held = run.instance(node, run.module, "generator")
    run.put(held, "*", value(atom))
    return value(held)
