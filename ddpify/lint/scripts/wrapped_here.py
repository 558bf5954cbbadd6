"""Whether an expression is a wrapper where it stands, although it is the plain model elsewhere.

``self.model = DDP(self.model)``, also under an option: what is read below that, in a run on several
processes, is the wrapper.
"""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.unwrapped import takes_out
from ddpify.understanding.libraries.distributed import is_wrapper
from ddpify.understanding.structure import walk
from ddpify.understanding.values import Const, Instance


def wrappers_here(script: Script, node: cst.BaseExpression) -> list[Instance]:
    """The wrappers that an expression is in a run on several processes; none if it may be something
    else, or what they hold.
    """
    atoms = [one for one in script.value(node).atoms if not _is_none(one)]
    wrappers = [one for one in atoms if isinstance(one, Instance) and is_wrapper(one)]
    if not wrappers:
        return []
    held = {one for wrap in script.wraps if wrap.wrapper in wrappers for one in wrap.held}
    rest = [one for one in atoms if one not in wrappers]
    if not rest:
        return wrappers
    plain = any(one not in held for one in rest) or _is_taken_out(script, node)
    return [] if plain or _comes_before(script, wrappers, node) else wrappers


def _is_none(atom: object) -> bool:
    """What nothing can be asked of."""
    return isinstance(atom, Const) and atom.value is None


def _is_taken_out(script: Script, node: cst.BaseExpression) -> bool:
    """``raw = model.module if distributed else model``."""
    known = script.flow.ancestry(node, script.module)
    edges = script.flow.edges_into({one.location for one in known if one.location is not None})
    made = (edge.value for edge in edges if edge.value is not None)
    return any(takes_out(one) for whole in (node, *made) for one in walk(whole))


def _comes_before(script: Script, wrappers: list[Instance], node: cst.CSTNode) -> bool:
    """Whether a place, or a call of its function, stands above the wrapping in that function."""
    own = script.structure_of(node).function(node)
    callers = script.control.callers(own) if own is not None else []
    places = [node, *(site.node for site in callers)]
    for wrap in script.wraps:
        made, structure = wrap.site.node, script.structure_of(wrap.site.node)
        order, function = structure.order, structure.function(made)
        if wrap.wrapper in wrappers and any(
            one in order and structure.function(one) is function and order[one] < order[made]
            for one in places
        ):
            return True
    return False
