"""Code for the case of one process, in a script that can also run on several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts.no_group import starts_no_group
from ddpify.lint.scripts.number_of_ranks import distributes_never, has_one_rank
from ddpify.lint.scripts.one_process_tests import counts_one, finds_one_process, is_no_rank
from ddpify.lint.scripts.script_kinds import DISTRIBUTED
from ddpify.lint.scripts.told import is_told_otherwise
from ddpify.lint.scripts.unreached import tests_something
from ddpify.understanding.structure import Guard

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control


def concerns_no_rank(control: Control, node: cst.CSTNode) -> bool:
    """Whether what a distributed script does at a node is done by one process alone."""
    return control.script.kind == DISTRIBUTED and (
        tests_something(control)
        or has_one_rank(control)
        or distributes_never(control)
        or starts_no_group(control)
        or runs_alone(control, node)
    )


def runs_alone(control: Control, node: cst.CSTNode) -> bool:
    """Whether a node is only reached where a condition has found that nothing is distributed.

    On its other side only, such a condition has a sampler, a wrapper, a process group, or asks for
    the rank.
    """
    return control.holds_on_every_way(node, lambda one: is_kept_to_one_process(control, one))


def never_runs(control: Control, node: cst.CSTNode) -> bool:
    """Whether a condition keeps a node from running, whose answer is the same in all calls."""
    return is_told_otherwise(control.script, node) or control.holds_on_every_way(
        node, lambda one: _is_ruled_out(control, one)
    )


def _is_ruled_out(control: Control, node: cst.CSTNode) -> bool:
    """Whether a condition in its function keeps a node from running."""
    for guard in control.guards(node):
        answer = control.script.value(guard.test).constant()
        if isinstance(answer, bool) and answer is not guard.positive:
            return True
    return False


def is_kept_to_one_process(control: Control, node: cst.CSTNode) -> bool:
    """Whether a condition in its function keeps a node to runs that are not distributed."""
    return any(finds_one_process(control, guard) for guard in control.guards(node)) or any(
        is_no_rank(one.test) or counts_one(control, Guard(one.test, True, one))
        for one in _asserted(control, node)
    )


def _asserted(control: Control, node: cst.CSTNode) -> Iterator[cst.Assert]:
    """The assertions that stand before a node in the blocks around it."""
    structure = control.script.structure_of(node)
    below = node
    for above in structure.up(node):
        if isinstance(above, (cst.FunctionDef, cst.ClassDef)):
            return
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            end = structure.order[below]
            before = [one for one in above.body if structure.order[one] < end]
            lines = [one for one in before if isinstance(one, cst.SimpleStatementLine)]
            yield from (x for one in lines for x in one.body if isinstance(x, cst.Assert))
        below = above
