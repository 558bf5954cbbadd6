"""How sure a finding is, by what it rests on besides what its rule looks for.

Some rules put two facts together: what is done at one place, and that a process group and its
wrappers are there at another. Between them stand conditions on options, of which a script may have
one set for several processes and one for a single process. Such a finding is possible unless the
place is reached in any case; and what hangs must hang by a condition that is on the rank, whatever
set it. What goes wrong because all ranks do it at once is in code that a path through the start of
their group leads to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.diagnostics import Confidence
from ddpify.lint.proof import ANYWHERE, distributing_branches, distributing_places, is_proved
from ddpify.lint.scripts.before_group import ends_before_group
from ddpify.lint.scripts.failing import fails_before_training, is_after_a_failure
from ddpify.lint.scripts.left_to_launches import is_reached_by_none
from ddpify.lint.scripts.named_nowhere import is_named_nowhere
from ddpify.lint.scripts.options import asks_unknown
from ddpify.lint.scripts.ranks_of_a_node import starts_one_rank_a_node
from ddpify.lint.scripts.script_kinds import DISTRIBUTED, MAY_ASK
from ddpify.lint.scripts.set_by_rank import object_guards
from ddpify.lint.scripts.surely_ranks import asks_unseen, surely_asks_rank
from ddpify.lint.scripts.unreached import joins_no_group
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of

if TYPE_CHECKING:
    from ddpify.lint.registry import Finding, Rule
    from ddpify.lint.scripts.control import Control
    from ddpify.lint.scripts.script import Script

_ON_ANY_PATH = frozenset(
    "hard-coded-device manual-batches-same-on-all-ranks moved-or-cast-after-wrap"
    " stale-unwrapped-reference parameters-outside-ddp rank-local-learning-rate".split()
)
_BY_RANK = frozenset(
    "collective-under-rank-condition rank-zero-forward rank-conditional-update".split()
)
_OF_THE_GROUP = frozenset(
    "hard-coded-device load-without-map-location missing-distributed-sampler unreduced-metric"
    " write-on-all-ranks makedirs-race per-rank-run-directory logger-on-all-ranks"
    " download-on-all-ranks".split()
)
# What goes wrong between the processes of a node, on a GPU or in a folder that they share.
_ON_A_NODE = frozenset(
    "hard-coded-device load-without-map-location write-on-all-ranks makedirs-race"
    " download-on-all-ranks local-rank-guarded-write".split()
)
# What shows in the training, wherever in the script its cause is.
_IN_TRAINING = frozenset(
    "missing-distributed-sampler missing-set-epoch sampler-rank-not-global rank-dependent-dataset"
    " per-rank-dataset-split global-batch-changed train-sampler-shuffle-changed"
    " uneven-steps-per-rank parameters-outside-ddp unused-parameters find-unused-without-need"
    " batchnorm-not-synced same-seed-everywhere rank-seed-before-shared-randomness"
    " sampler-seed-per-rank".split()
)
# A script whose options decide whether it is distributed may well be run so.
_WHEREVER_WRAPPED = frozenset(
    "stale-unwrapped-reference rank-local-learning-rate moved-or-cast-after-wrap"
    " parameters-outside-ddp".split()
)
_RATE = "rank-local-learning-rate"
_UNDER_OPTIONS = frozenset({"hard-coded-device"})


def confidence_of(script: Script, rule: Rule, finding: Finding) -> Confidence:
    """How sure it is that a finding holds in runs of the script on several processes."""
    known, node = min(rule.confidence, finding.confidence), finding.node
    if script.kind != DISTRIBUTED or script.has_runtime:
        return known
    if _may_concern_no_run(script, rule, node):
        return Confidence.POSSIBLE
    if rule.name in _ON_ANY_PATH and not (
        runs_in_any_case(script.control, node) and _distributes_in_any_case(script)
    ):
        likely = _is_likely_on_its_path(script, rule, node)
        return min(known, Confidence.LIKELY if likely else Confidence.POSSIBLE)
    if rule.name in _BY_RANK and not is_kept_by_rank(script.control, node):
        return Confidence.POSSIBLE
    if known is Confidence.CERTAIN and (
        not is_proved(script, rule, node) or asks_unseen(script.control, node)
    ):
        return Confidence.LIKELY
    return known


def _may_concern_no_run(script: Script, rule: Rule, node: cst.CSTNode) -> bool:
    """Whether runs on several ranks, or a node, may never get to code that a rule is about."""
    if rule.group not in ANYWHERE and (
        is_reached_by_none(
            script, node, script.once(distributing_branches), later=_is_of_later_runs(rule)
        )
        or is_named_nowhere(script, node)
        or _fails_before(script, rule, node)
    ):
        return True
    if rule.name in _OF_THE_GROUP and (
        joins_no_group(script.control, node) or ends_before_group(script.control, node)
    ):
        return True
    return rule.name in _ON_A_NODE and script.once(starts_one_rank_a_node)


def _fails_before(script: Script, rule: Rule, node: cst.CSTNode) -> bool:
    """Whether each run surely fails before what a rule says of a node happens."""
    if is_after_a_failure(script, node):
        return True
    return rule.name in _IN_TRAINING and fails_before_training(script)


def _is_likely_on_its_path(script: Script, rule: Rule, node: cst.CSTNode) -> bool:
    """Whether code that not all runs get to is likely to be run where several ranks are."""
    if rule.name in _UNDER_OPTIONS or _runs_where_distributed(script, node):
        return True
    if rule.name == _RATE and _is_of_the_rank_alone(script, node):
        return True
    return rule.name in _WHEREVER_WRAPPED and (
        runs_in_any_case(script.control, node) or _goes_with_a_step(script, node)
    )


def _is_of_later_runs(rule: Rule) -> bool:
    """Whether a rule is about what runs save and go on from: no first command asks for it."""
    return rule.group == "checkpoint" or rule.name == "load-without-map-location"


def _runs_where_distributed(script: Script, node: cst.CSTNode) -> bool:
    """Whether the options that lead to a node are among those that lead to a wrapper."""
    control = script.control
    wrapping = {one for wrap in script.wraps for one in control.branches(wrap.site.node)}
    asked = [one for one in control.guards(node) if asks_unknown(control, one.test)]
    return bool(asked) and all((code_of(one.test), one.positive) in wrapping for one in asked)


def _is_of_the_rank_alone(script: Script, node: cst.CSTNode) -> bool:
    """Whether an expression has the rank in it, and no option around it has a word about the
    launch: ``if args.optimizer == "adam":``.
    """
    control = script.control
    asked = [one for one in control.guards(node) if asks_unknown(control, one.test)]
    of_rank = isinstance(node, cst.BaseExpression) and control.asks_rank(node)
    return of_rank and not any(MAY_ASK.search(code_of(one.test)) for one in asked)


def _goes_with_a_step(script: Script, node: cst.CSTNode) -> bool:
    """Whether the same loop leads to ``backward()``, under all of the conditions on a node."""
    control = script.control
    asked = control.branches(node)
    loops = script.structure_of(node).loops(node)
    return any(
        asked <= control.branches(inner)
        for loop in loops[-1:]
        for inner in walk(loop.body)
        if inner in script.facts.backwards or (isinstance(inner, cst.Call) and script.trains(inner))
    )


def _distributes_in_any_case(script: Script) -> bool:
    """Whether no option decides about the process group and the wrappers."""
    return all(runs_in_any_case(script.control, one) for one in distributing_places(script))


def runs_in_any_case(control: Control, node: cst.CSTNode) -> bool:
    """Whether a node is reached on some way whatever the options of the run are."""
    return not control.holds_on_every_way(
        node,
        lambda one: any(asks_unknown(control, guard.test) for guard in control.guards(one)),
        begins=control.spawned,
        uncalled=True,
    )


def is_kept_by_rank(control: Control, node: cst.CSTNode) -> bool:
    """Whether a condition around a node, here or where its function is called, surely asks for
    the rank.
    """
    ways = [*control.ways_to(node, control.spawned)]
    sides = {(guard.statement, guard.positive) for one in ways for guard in control.guards(one)}
    return any(
        any(
            surely_asks_rank(control, guard.test)
            and (guard.statement, not guard.positive) not in sides  # the others get there, too
            for guard in control.rank_guards(one, in_turn=True)
        )
        or bool(object_guards(control, one))
        for one in ways
    )
