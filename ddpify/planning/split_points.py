"""Decides where batches that a script makes by hand are split among the ranks.

What enters a trained model is split where it was first given a name, along the dimension that the
model's layers take for the batch; then what meets it, in a loss or in arithmetic. Batches of an
evaluation are split where the function makes them that makes the trained ones; others stay whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import libcst as cst

from ddpify.planning import replicated_statements
from ddpify.planning.batches_alike import made_alike
from ddpify.planning.refusals import Refusal
from ddpify.planning.square_masks import is_square_mask
from ddpify.understanding.batching.handmade_batches import DIMENSIONS, replicated_tensors
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Entry, Facts, Place, Site
from ddpify.understanding.values import UNKNOWN, Instance


def split_batches(facts: Facts, choices: Choices) -> bool:
    """Decide on places that are not decided yet; whether there were any.

    Raises:
        Refusal: A batch enters a model, or meets another, along a dimension that is not known.
    """
    if choices.trained and not choices.by_hand:
        return False
    if not choices.by_hand:
        choices.by_hand = bool(facts.backwards)
        return choices.by_hand
    _refuse_beside_loaders(facts)
    before = set(choices.batches)
    _refuse_split_in_one_call(facts)
    calls = _by_call(facts, choices)
    steps = {
        loop for entries in calls for entry in entries for loop in _loops_of_definition_sites(entry)
    }
    for entries in calls:
        if steps and all(_is_told(entry) for entry in entries):
            choices.replicated |= {
                definition_site for entry in entries for definition_site in _definition_sites(entry)
            }
        else:
            places = _chosen(facts, choices, entries)
            _refuse_parts(entries, places)
            _refuse_unseen_layers(facts, entries, places)
            _split(choices, places)
    choices.flat |= facts.by_hand.flat - choices.batches.keys()
    wanted = {p: by for p, by in facts.by_hand.wanted.items() if not _is_no_batch(facts, p[0])}
    _split(choices, wanted)
    for node in facts.by_hand.cut:
        choices.batches.pop(node, None)
    for kind in (choices.trained, choices.alike):
        kind |= {
            node
            for (node, _), sources in wanted.items()
            if any(source.site in kind for source in sources)
        }
    if choices.batches.keys() != before:
        return True
    _refuse_unmatched(facts)
    return _keep_untrained_replicated(facts, choices) or _split_evaluations(facts, choices)


def _refuse_split_in_one_call(facts: Facts) -> None:
    """What a function makes of rows of one rank cannot be split for its other callers."""
    for node, site in facts.by_hand.split_before.items():
        if node in facts.by_hand.split_here:
            raise Refusal(
                site.module,
                node,
                "this is made of a rank's rows in one call, and of a whole batch in another",
                "make both from batches that come from the same place",
            )


def _refuse_parts(entries: list[Entry], places: list[Place]) -> None:
    """Tensors that come out of one call are split in one place: all of them along its dimension."""
    for node, dim in places:
        if dim and sum(node in _definition_sites(entry) for entry in entries) > 1:
            raise Refusal(
                entries[0].site.module,
                entries[0].site.node,
                "the samples of this batch lie along its second dimension, and the batch dimension"
                " of the tensors that come with it out of one call is unknown",
                "put the samples first in all of them, or make them in calls of their own",
            )


def _refuse_unseen_layers(facts: Facts, entries: list[Entry], places: list[Place]) -> None:
    """The layers of a model that is loaded from a file may take another dimension."""
    model = entries[0].model
    if places and model.kind == "torch.load" and not facts.by_hand.confirmed.intersection(places):
        raise Refusal(
            model.module,
            model.site,
            "the model is loaded from a file, so that it is not known along which dimension its"
            " layers take the samples of the batches that are made by hand",
            "make the model with its class, and load its parameters alone:"
            " model.load_state_dict(torch.load(path))",
        )


def _split(choices: Choices, places: Iterable[Place]) -> None:
    for node, dim in places:
        choices.batches.setdefault(node, dim)


def _by_call(facts: Facts, choices: Choices) -> list[list[Entry]]:
    """What enters a model together, in training, and where that is needed in evaluations."""
    calls: dict[cst.CSTNode, list[Entry]] = defaultdict(list)
    asked = [e for e in facts.by_hand.entries.values() if e.training or choices.split_all]
    if not all(entry.tested for entry in asked) and not choices.split_all:
        asked = [entry for entry in asked if not entry.tested]
    if choices.split_alike:
        alike = made_alike(facts, choices)
        choices.alike |= {place for entry in alike for place in _definition_sites(entry)}
        asked += alike
    for entry in asked:
        calls[entry.site.node].append(entry)
    return list(calls.values())


def _is_told(entry: Entry) -> bool:
    """Whether a model is told something that the script made once, as all edges of its graph.

    Nothing is done with what the model gives, and batches are made anew in each step.
    """
    unused = isinstance(entry.site.module.parents.get(entry.site.node), cst.Expr)
    return unused and not _loops_of_definition_sites(entry)


def _chosen(facts: Facts, choices: Choices, entries: list[Entry]) -> list[Place]:
    """Where to split what enters a model: all of it, or nothing where its rows are not known."""
    asked = [(e, _possible(facts, e)) for e in entries if not _has_no_rows(facts, e)]
    steps = {
        loop for entry, places in asked if places for loop in _loops_of_definition_sites(entry)
    }
    unknown = [entry for entry, places in asked if not places]
    if not all(_is_constant(facts, entry, steps) for entry in unknown):
        return []
    choices.replicated |= {
        definition_site for entry in unknown for definition_site in _definition_sites(entry)
    }
    return [place for _, places in asked for place in places]


def _is_constant(facts: Facts, entry: Entry, steps: set[cst.CSTNode]) -> bool:
    """Whether no layer takes this for rows, and it is not made anew in each step, as a batch is."""
    places = {
        (definition_site, atom.dim_at_definition)
        for atom in entry.held
        for definition_site in atom.definition_sites
    }
    return (
        bool(steps)
        and places <= facts.by_hand.refuted
        and not steps & _loops_of_definition_sites(entry)
    )


def _loops_of_definition_sites(entry: Entry) -> set[cst.CSTNode]:
    """The loops around the call in which what it gets was first given a name."""
    module, definition_sites = entry.site.module, _definition_sites(entry)
    around = module.structure.loops(entry.site.node)
    return {
        loop
        for loop in around
        if any(module.holds(loop, definition_site) for definition_site in definition_sites)
    }


def _definition_sites(entry: Entry) -> set[cst.CSTNode]:
    return {definition_site for atom in entry.held for definition_site in atom.definition_sites}


def _has_no_rows(facts: Facts, entry: Entry) -> bool:
    """Whether what enters a model beside a batch is known to be none."""
    places = _definition_sites(entry)
    return bool(places) and all(_is_no_batch(facts, one) for one in places)


def _is_no_batch(facts: Facts, place: cst.CSTNode) -> bool:
    """Whether indices, a mask or a model come from here."""
    return (
        place in facts.by_hand.without_rows
        or is_square_mask(facts, place)
        or _is_a_model(facts, place)
    )


def _is_a_model(facts: Facts, place: cst.CSTNode) -> bool:
    """Whether this is a library's model, though a call that is not read could give a tensor."""
    held = facts.values.get(place, UNKNOWN) if isinstance(place, cst.BaseExpression) else UNKNOWN
    return any(one.role == "model" for one in held.of(Instance))


def _possible(facts: Facts, entry: Entry) -> list[Place]:
    """Where an argument could be split, along the first dimension unless layers say otherwise.

    What goes through a list of samples takes each for a tensor: only layers tell its dimension.
    """
    for dim in DIMENSIONS:
        atoms = [atom for atom in entry.held if atom.dim == dim and not atom.mixed]
        places = [
            (definition_site, atom.dim_at_definition)
            for atom in atoms
            for definition_site in atom.definition_sites
            if not _is_a_model(facts, definition_site)
        ]
        plain = not any(atom.guessed and atom.dim_at_definition for atom in atoms)
        told = (dim == 0 and plain) or any(place in facts.by_hand.confirmed for place in places)
        if places and told and not any(place in facts.by_hand.refuted for place in places):
            return places
    return []


def _keep_untrained_replicated(facts: Facts, choices: Choices) -> bool:
    """Do not split what no loss comes from; whether there was any such batch.

    What enters a model beside rows that are trained on must have as many.
    """
    if choices.split_all:
        return False
    for places in facts.by_hand.entered_together:
        if places & choices.trained:
            choices.trained |= places
    untrained = choices.batches.keys() - choices.trained - choices.replicated - choices.alike
    choices.replicated |= untrained
    return bool(untrained)


def _split_evaluations(facts: Facts, choices: Choices) -> bool:
    """Split all batches where a function that reduces results gets replicated ones elsewhere.

    Where they cannot be split, what such a function gets may yet be reduced before its calls.
    """
    both = _reduced_in_part(facts)
    if not both:
        return False
    if choices.split_all or lasts(facts, choices):
        return all(_keep_replicated(facts, choices, site.node) for site in both)
    choices.split_all = True
    choices.replicated -= choices.batches.keys()
    return True


def _reduced_in_part(facts: Facts) -> list[Site]:
    """The reductions that get a rank's part in one call, and a global value in another."""
    found = facts.reductions.reduced_replicated.items()
    return [site for node, site in found if node in facts.reductions.reduced]


def told_apart_nowhere(facts: Facts, choices: Choices) -> Iterable[Refusal]:
    """A reduction of batches made by hand that would reduce a global value in some calls, too."""
    for site in _reduced_in_part(facts) if choices.by_hand else ():
        yield Refusal(
            site.module,
            site.node,
            "this is computed from batches that are split among the ranks, and elsewhere from"
            " others that cannot be",
            "let the training and the evaluation call functions of their own",
        )


def lasts(facts: Facts, choices: Choices) -> bool:
    """Whether what is trained on is split once, before the loops: all samples, for each step.

    Were an evaluation's samples split as well, the last split would be the current batch for both.
    """
    modules = {call.module for calls in facts.callers.values() for call in calls}
    modules |= {site.module for site, _ in facts.backwards.values()}
    split = choices.trained & choices.batches.keys()
    places = (Site(node, module) for node in split for module in modules if node in module.parents)
    return any(_runs_once(facts, place, set()) for place in places)


def _runs_once(facts: Facts, place: Site, known: set[cst.CSTNode]) -> bool:
    """Whether a place is in no loop, nor is a call of the function that it is in."""
    structure = place.module.structure
    function = structure.function(place.node)
    if any(isinstance(one, (cst.For, cst.While)) for one in structure.up(place.node)):
        return False
    if function is None or function in known:
        return function is None
    calls = facts.callers.get(function, set())
    return bool(calls) and all(_runs_once(facts, call, known | {function}) for call in calls)


def _keep_replicated(facts: Facts, choices: Choices, node: cst.CSTNode) -> bool:
    """Keep replicated what a function gets so, beside batches elsewhere; whether that works."""
    found = replicated_statements.calls(facts, node)
    for call in found:
        choices.replicated_statements[call.module.statement(call.node)] = call
    return bool(found)


def _refuse_beside_loaders(facts: Facts) -> None:
    for node, site in facts.by_hand.beside_loaders.items():
        raise Refusal(
            site.module,
            node,
            "a loop over a DataLoader trains here on something else than its batches, or on single"
            " samples that are taken out of them",
            "feed the model with the tensors of the DataLoader's batches",
        )


def _refuse_unmatched(facts: Facts) -> None:
    for node, site in facts.by_hand.unmatched.items():
        held = replicated_tensors(facts.values.get(node, UNKNOWN))
        places = {place for atom in held for place in atom.definition_sites}
        if places and all(_is_no_batch(facts, place) for place in places):
            continue
        raise Refusal(
            site.module,
            node,
            "this is combined with a batch that is split among the ranks, and its own batch"
            " dimension is unknown",
            "take it from the same place as the batch, in one piece",
        )
