"""Batches that are taken while those of another loader are in use.

Reductions use the sizes of the batch that came last. What a step takes beside its own batch, as by
``next(iter(check))``, must not change that: it is replicated.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.planning import past_batches
from ddpify.planning.bindings import loader_name
from ddpify.planning.refusals import Refusal
from ddpify.planning.unshared import places
from ddpify.understanding.batching.joint_loaders import equally_large, same_sizes
from ddpify.understanding.choices import BatchSwitch, Choices
from ddpify.understanding.facts import Facts, LateUse
from ddpify.understanding.values import Instance

if TYPE_CHECKING:
    from ddpify.planning.plan import Plan

_Met = tuple[frozenset[Instance], frozenset[Instance]]


def note_beside(facts: Facts, choices: Choices) -> None:
    """Remember the loaders that are used beside others: once replicated, nothing shows it."""
    choices.beside |= {loader.site for loader in facts.batches.beside}
    for pair in facts.batches.in_step:
        trained = {loader for loader in pair if loader.site in choices.trained}
        choices.beside |= {loader.site for loader in pair - trained if trained}


def note_unequal(facts: Facts, choices: Choices) -> bool:
    """Remember pairs of loaders that are trained on together, with batches of different sizes."""
    before = len(choices.unequal)
    for pair in facts.batches.used_together:
        trained = all(loader.site in choices.trained for loader in pair)
        replicated = any(loader.site in choices.replicated for loader in pair)
        if trained and not replicated and not same_sizes(facts, pair):
            choices.unequal.add(frozenset(loader.place for loader in pair))
    return len(choices.unequal) > before


def switch_batches(plan: Plan) -> bool:
    """Make late uses use their own batch; whether there was any.

    Before a line that calls a model, that batch becomes the current one. A reduction names the
    loader. A loader's earlier batches are told by their rows.
    """
    uses = [use for use in plan.facts.batches.late_uses.values() if _is_unequal(plan, use)]
    before = len(plan.choices.switches)
    called = [use.site.node for use in uses if use.site.node in plan.choices.named]  # also a model
    for use in uses:
        if use.site.node not in plan.reductions or use.site.node in called:
            _switch_to(plan, use)
        elif not loader_name(plan, use.site, use.loaders):
            past_batches.go_to_rows(plan, use)
    past = plan.facts.batches.past_batches.values()
    late = (use for use in past if _may_differ(use.loaders, use.current_loaders))
    if any(past_batches.go_back(plan, use) for use in late):
        return True
    if len(plan.choices.switches) > before:
        for node in called:
            del plan.choices.named[node]
        return True
    named = {use.site.node: loader_name(plan, use.site, use.loaders) for use in uses}
    found = {n: name for n, name in named.items() if n in plan.reductions and name}
    fresh = found.items() - plan.choices.named.items()
    plan.choices.named |= found
    return bool(fresh)


def _is_unequal(plan: Plan, use: LateUse) -> bool:
    pairs = {frozenset((a.place, b.place)) for a in use.loaders for b in use.current_loaders}
    return bool(pairs & plan.choices.unequal) or _is_left_over(plan, use)


def _is_left_over(plan: Plan, use: LateUse) -> bool:
    """Whether this is the last batch of a loop that has ended: no step takes others beside it."""
    together = {one.place for pair in plan.facts.batches.used_together for one in pair}
    met = use.loaders | use.current_loaders
    alone = all(one.role == "loader" and one.place not in together for one in met)
    # By its rows it could not be told from a batch that every rank has whole.
    named = any(loader_name(plan, site, use.loaders) for site in (use.site, *use.calls))
    split = named and not plan.choices.replicated
    return alone and split and _may_differ(use.loaders, use.current_loaders)


def _switch_to(plan: Plan, use: LateUse) -> None:
    """Choose the innermost line of the calls in progress at which the loader has a name."""
    for site in (use.site, *reversed(use.calls)):
        statement = site.module.statement(site.node)
        name = loader_name(plan, site, use.loaders)
        if name and isinstance(statement, cst.SimpleStatementLine) and site.module.editable:
            plan.choices.switches.setdefault(statement, BatchSwitch(use.loaders, name))
            return
    past_batches.go_to_rows(plan, use)


def unsplit(facts: Facts, choices: Choices) -> set[Instance]:
    """The loaders to replicate, since their batches meet those that are trained on."""
    pairs: list[_Met] = [
        (use.loaders, use.current_loaders) for use in facts.batches.late_uses.values()
    ]
    met = [one | other for one, other in pairs if _may_differ(one, other)]
    met += [pair for pair in facts.batches.in_step if not same_sizes(facts, pair)]
    known = choices.trained | choices.replicated
    return {
        loader
        for loaders in met
        for loader in loaders
        if loader.site not in known and any(one.site in choices.trained for one in loaders)
    }


def lost_evaluations(facts: Facts, choices: Choices) -> set[Instance]:
    """The loaders to replicate, since their batches meet later ones and none is trained on."""
    uses = (*facts.batches.late_uses.values(), *facts.batches.past_batches.values())
    met = {
        loader
        for use in uses
        if _may_differ(use.loaders, use.current_loaders)
        for loader in use.loaders | use.current_loaders
    }
    if any(loader.site in choices.trained or loader.role != "loader" for loader in met):
        return set()
    return {loader for loader in met if loader.site not in choices.replicated}


def _may_differ(loaders: frozenset[Instance], others: frozenset[Instance]) -> bool:
    pairs = product(loaders, others)
    return any(not equally_large(frozenset(pair), in_step=False) for pair in pairs)


def lost_batches(plan: Plan) -> Iterator[Refusal]:
    """Uses of a batch after that of another loader came, which may be shared in another way."""
    for node, use in plan.facts.batches.late_uses.items():
        if _may_differ(use.loaders, use.current_loaders):
            yield Refusal(
                use.site.module,
                node,
                f"this uses a batch of one loader ({places(use.loaders)}) after the next one came"
                f" from another ({places(use.current_loaders)}), which may have another number of "
                f"samples",
                "take the other batch after the last use of this one, or use each in lines of their"
                " own, where its loader has a name",
            )
    for node, use in plan.facts.batches.past_batches.items():
        if _may_differ(use.loaders, use.current_loaders):
            yield Refusal(
                use.site.module,
                node,
                f"this uses a batch after the loader ({places(use.loaders)}) has given the next"
                " one, which may have another number of samples",
                "take the next batch after the last use of this one; or let the loader drop the"
                " last, short batch: drop_last=True",
            )
    for node, site in plan.facts.reductions.reduced_replicated.items():
        both = node in plan.facts.reductions.reduced and node in plan.reductions
        if plan.aside and both and plan.reductions[node].how != "mean":
            yield Refusal(
                site.module,
                node,
                "this is computed from the batch of a step, and from one that is taken beside it",
                "let a function of its own compute it from the other batch",
            )
