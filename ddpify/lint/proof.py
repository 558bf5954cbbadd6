"""What has to be in sight for a finding to be called certain.

A finding is certain where nothing that it rests on is unseen. Three things often are, whatever a
rule looks for: whether a run gets to the place, how many nodes there are, and what starts the
ranks. Where one of them is not in sight, the finding is likely at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts.options import asks_unknown
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import LOCAL, TOTAL
from ddpify.understanding.texts import is_given_several_nodes, is_launched

if TYPE_CHECKING:
    from ddpify.lint.registry import Rule
    from ddpify.lint.scripts.control import Control
    from ddpify.lint.scripts.script import Script

# Names that are wrong wherever they stand.
ANYWHERE = frozenset({"deprecated"})
# With one node, the rank of a node is the global one.
_ACROSS_NODES = frozenset(
    "global-rank-as-device sampler-rank-not-global local-rank-guarded-write"
    " world-size-from-device-count".split()
)
_BY_LAUNCHER = frozenset("launcher-env-overridden spawn-under-torchrun rendezvous-by-hand".split())
_HANDLERS = (cst.ExceptHandler, cst.ExceptStarHandler)
Branches = frozenset[tuple[str, bool]]


def is_proved(script: Script, rule: Rule, node: cst.CSTNode) -> bool:
    """Whether all is in sight that lets a rule's finding hold in runs on several processes."""
    if rule.group in ANYWHERE:
        return True
    if rule.name in _ACROSS_NODES and not _has_several_nodes(script):
        return False
    if rule.name in _BY_LAUNCHER and not is_launched(script.paths, script.texts):
        return False
    return script.facts.cut_short is None and _is_reached(
        script.control, node, script.once(distributing_branches)
    )


def _has_several_nodes(script: Script) -> bool:
    """Whether a command asks for them, or the ranks that the script starts count its nodes."""
    if script.control.spawned:
        return script.flow.numbers_nodes_apart
    return is_given_several_nodes(script.paths, script.texts)


def distributing_places(script: Script) -> list[cst.CSTNode]:
    """Where a run makes its process group, and wraps its models."""
    groups = script.calls(INIT_GROUP, everywhere=True)
    return [*(wrap.site.node for wrap in script.wraps), *groups]


def distributing_branches(script: Script) -> Branches:
    """The branches that lead there: those of several processes."""
    found = map(script.control.branches, distributing_places(script))
    return frozenset[tuple[str, bool]]().union(*found)


def _is_reached(control: Control, node: cst.CSTNode, taken: Branches) -> bool:
    """Whether runs on several processes get to a node, whatever else their options say."""

    def may_be_passed(one: cst.CSTNode) -> bool:
        above = control.script.structure_of(one).up(one)
        return any(isinstance(x, _HANDLERS) for x in above) or any(
            (code_of(guard.test), guard.positive) not in taken and _asks_unseen(control, guard.test)
            for guard in control.guards(one)
        )

    return not control.holds_on_every_way(
        node, may_be_passed, begins=control.spawned, uncalled=True
    )


def _asks_unseen(control: Control, test: cst.BaseExpression) -> bool:
    """Whether the answer, or a part of it, is an option's, the system's or a library's."""
    if isinstance(test, cst.BooleanOperation):
        return _asks_unseen(control, test.left) or _asks_unseen(control, test.right)
    if control.asks_rank(test) or control.script.labels(test) & {LOCAL, TOTAL}:
        return False
    return asks_unknown(control, test) or any(
        isinstance(one, cst.Subscript)
        or (isinstance(one, cst.Call) and not control.script.names(one.func))
        or any(not name.startswith("builtins.") for name in control.script.names(one))
        for one in walk(test)
        if isinstance(one, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
    )
