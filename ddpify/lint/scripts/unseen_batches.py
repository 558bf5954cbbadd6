"""Training loops over batches that come from code that is not seen.

A script that wraps its model trains on several ranks, each with batches of its own. Where a
helper's or another package's function makes the loader, what its loop gives is likely to be so.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.understood import Understood
from ddpify.lint.scripts.unseen_steps import KNOWN
from ddpify.understanding.libraries.object_kinds import BARS
from ddpify.understanding.taint.flow import Flow
from ddpify.understanding.values import Instance, Number

_PASSING = frozenset({*BARS, "builtins.enumerate"})


def unseen_loops(script: Understood, flow: Flow) -> Iterator[cst.For]:
    """The innermost loops over nothing known that train a wrapped model with what they give."""
    for node in script.facts.backwards:
        structure = script.structure_of(node)
        loop = next((one for one in structure.loops(node) if isinstance(one, cst.For)), None)
        if loop is None or not is_unseen(script, loop.iter):
            continue
        if any(
            isinstance(one, cst.Call)
            and script.is_wrapped(one.func)
            and _gets(script, flow, one, loop)
            for one in script.reached(loop)
        ):
            yield loop


def _gets(script: Understood, flow: Flow, call: cst.Call, loop: cst.For) -> bool:
    """Whether a call gets what a round of a loop is given."""
    given = {target for edge in flow.edges_at(loop) for target in edge.targets}
    return any(
        part.location in given
        for one in call.args
        for part in flow.ancestry(one.value, script.owners.get(one.value, script.module))
    )


def is_unseen(script: Understood, node: cst.BaseExpression) -> bool:
    """Whether an expression, or what it counts or shows the progress of, is nothing known."""
    if isinstance(node, cst.Call) and script.names(node.func) & _PASSING:
        return bool(node.args) and is_unseen(script, node.args[0].value)
    held = script.value(node).atoms
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        return False
    return all(_is_of_unseen_code(script, one) for one in held)


def _is_of_unseen_code(script: Understood, atom: object) -> bool:
    """What a function of another package gives, or a progress bar around such a thing."""
    if isinstance(atom, Number):
        return atom.setting is None and atom.loaded is None
    if not isinstance(atom, Instance) or not isinstance(atom.type, str):
        return False
    call = atom.site
    if isinstance(call, cst.Call) and script.names(call.func) & _PASSING:
        return is_unseen(script, call)
    package, _, rest = atom.type.partition(".")
    return bool(rest) and package not in KNOWN
