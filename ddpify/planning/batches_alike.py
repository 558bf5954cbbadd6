"""Batches of evaluations that a script makes by hand as it makes those that it trains on.

One function, such as ``get_batch(split)``, makes both: then the evaluation can be split at the same
places of the call's result. What a model's own output is put together to, as a text that grows by
a word in each round, is no such batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Entry, Facts
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.values import UNKNOWN, Bound, Function, ReplicatedTensor


def made_alike(facts: Facts, choices: Choices) -> list[Entry]:
    """What enters models in evaluations, all of it made by functions that make trained batches."""
    whole = [e for e in facts.by_hand.entries.values() if not e.training or e.tested]
    trained = choices.trained & choices.batches.keys() if whole else ()
    owners = {site.module for site, _ in facts.backwards.values()} | {e.site.module for e in whole}
    makers = {m for node in trained for owner in owners for m in _makers(facts, owner, node)}
    found = (replace(e, held=tuple(_made_by(facts, e, makers))) for e in whole)
    return [entry for entry in found if entry.held]


def left_whole(facts: Facts, choices: Choices) -> bool:
    """Whether a plan has left such batches whole on every rank."""
    if not choices.by_hand or choices.split_all or choices.split_alike:
        return False
    return bool(made_alike(facts, choices))


def _made_by(facts: Facts, entry: Entry, makers: set[cst.CSTNode]) -> Iterator[ReplicatedTensor]:
    """What an entry may be of the results of these functions alone, made anew in each round."""
    module = entry.site.module
    around = module.structure.loops(entry.site.node)
    for atom in entry.held:
        anew = all(any(module.holds(o, s) for o in around) for s in atom.definition_sites)
        made = [set(_makers(facts, module, site)) for site in atom.definition_sites]
        if made and anew and all(one and one <= makers for one in made):
            yield atom


def _makers(facts: Facts, module: ModuleFile, site: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The script's functions whose result gets its name at a place: none where it is computed."""
    if site not in module.parents:
        return
    line = module.statement(site)
    for one in line.body if isinstance(line, cst.SimpleStatementLine) else ():
        shown = one.value if isinstance(one, cst.Assign) else None
        called = facts.values.get(shown.func, UNKNOWN) if isinstance(shown, cst.Call) else UNKNOWN
        for atom in called.atoms:
            function = atom.function if isinstance(atom, Bound) else atom
            if isinstance(function, Function):
                yield function.node
