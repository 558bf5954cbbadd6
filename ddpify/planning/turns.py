"""Batches that are taken while those of another loader are in use.

Means, sums and rows go by how the batch that came last is shared. What a step takes beside its own
batch, as by ``next(iter(check))``, must not change that: every rank takes it whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from ddpify.planning.refusals import Refusal, places
from ddpify.understanding.batching.together import equally_large, same_sizes
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Facts
from ddpify.understanding.values import Instance

if TYPE_CHECKING:
    from ddpify.planning.plan import Plan

Turn = tuple[frozenset[Instance], frozenset[Instance]]


def note_beside(facts: Facts, choices: Choices) -> None:
    """Remember the loaders that are taken beside others: once they are whole, nothing shows it."""
    choices.beside |= {loader.site for loader in facts.beside}
    for pair in facts.in_step:
        trained = {loader for loader in pair if loader.site in choices.trained}
        choices.beside |= {loader.site for loader in pair - trained if trained}


def unsplit(facts: Facts, choices: Choices) -> set[Instance]:
    """The loaders to run whole, since their batches meet those that are trained on."""
    turns: list[Turn] = [(use.loaders, use.at_hand) for use in facts.out_of_turn.values()]
    met = [one | other for one, other in turns if _may_differ(one, other)]
    met += [pair for pair in facts.in_step if not same_sizes(facts, pair)]
    known = choices.trained | choices.replicated
    return {
        loader
        for loaders in met
        for loader in loaders
        if loader.site not in known and any(one.site in choices.trained for one in loaders)
    }


def _may_differ(loaders: frozenset[Instance], others: frozenset[Instance]) -> bool:
    pairs = product(loaders, others)
    return any(not equally_large(frozenset(pair), in_step=False) for pair in pairs)


def lost_turns(plan: Plan) -> Iterator[Refusal]:
    """Uses of a batch after that of another loader came, which may be shared in another way."""
    for node, use in plan.facts.out_of_turn.items():
        if _may_differ(use.loaders, use.at_hand):
            yield Refusal(
                use.site.module,
                node,
                f"this uses a batch of one loader ({places(use.loaders)}) after the next one came"
                f" from another ({places(use.at_hand)}), which may have another number of samples",
                "take the other batch after the last use of this one",
            )
    for node, site in plan.facts.reduced_whole.items():
        both = node in plan.facts.reduced and node in plan.reductions
        if plan.aside and both and plan.reductions[node].how != "mean":
            yield Refusal(
                site.module,
                node,
                "this is computed from the batch of a step, and from one that is taken beside it",
                "let a function of its own compute it from the other batch",
            )
