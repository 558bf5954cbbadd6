"""One name, and one seed, for all ranks where each process would make up its own."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from ddpify.codemods.synchronisation.rank0_values import on_all_ranks, share

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.clocks import is_clock
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.libraries.entropy import SEEDED
from ddpify.understanding.libraries.paths import path_of
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK

_FILES = ("tempfile.mkstemp", "tempfile.NamedTemporaryFile")
_FORMS = ("builtins.str", "builtins.int", "builtins.round")


def edit(plan: Plan, edits: Edits) -> None:
    """Take rank 0's where the others must find what it wrote, or draw the same numbers."""
    if not any(map(is_clock, plan.facts.library_calls)):
        return
    for path, site in _shared_paths(plan):
        if on_all_ranks(plan, edits, site):
            _take_rank_0s(plan, edits, path, site, "per-rank-run-directory")
    for seed, site in _seeds(plan):
        _take_rank_0s(plan, edits, seed, site, "rank-dependent-dataset")


def _shared_paths(plan: Plan) -> Iterator[tuple[cst.BaseExpression, Site]]:
    """The paths of folders that are made, and of files that are read or asked for."""
    for use in plan.places.uses:
        yield use.path, use.site
    for effect in plan.facts.effects.values():
        path = path_of(effect) if effect.kind == "folder" else None
        if path is not None:
            yield path, effect.site


def _seeds(plan: Plan) -> Iterator[tuple[cst.BaseExpression, Site]]:
    for name in SEEDED:
        for node, site in plan.facts.library_calls.get(name, {}).items():
            for given in node.args if isinstance(node, cst.Call) else ():
                yield given.value, site


def _take_rank_0s(
    plan: Plan, edits: Edits, used: cst.BaseExpression, site: Site, rule: str
) -> None:
    """Take rank 0's value of what makes an expression another on each rank, where that is made."""
    if plan.flow.sources(used, site.module) & ANY_RANK:
        return  # meant for one rank
    for one in list(plan.flow.ancestry(used, site.module)):
        if one.label == CLOCK and one.node is not None:
            place = _place(plan, one.node, used, site)
            if _opens_a_file(plan, one.node):
                plan.refuse(_no_file_of_all(plan, one.node))
            elif place is not None and on_all_ranks(plan, edits, place):
                text = "the same on all ranks: rank 0 chooses it"
                share(plan, edits, place, text, rule)


def _opens_a_file(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether each process makes, and opens, a temporary file of its own."""
    called = plan.facts.values.get(node.func) if isinstance(node, cst.Call) else None
    return any(name in _FILES for name in library_names(called))


def _no_file_of_all(plan: Plan, node: cst.CSTNode) -> Refusal:
    return Refusal(
        plan.module_of(node),
        node,
        "each rank opens a temporary file of its own here, and would not find what rank 0 writes",
        "take a name in tempfile.mkdtemp(), which is made rank 0's on all ranks",
    )


def _place(plan: Plan, clock: cst.CSTNode, used: cst.BaseExpression, site: Site) -> Site | None:
    """Where to take rank 0's value: where it is made, or read out of a file that stays."""
    module = plan.module_of(clock)
    if module.editable:
        return Site(_with_its_form(plan, clock), module)
    for one in plan.flow.ancestry(used, site.module):
        if one.node is None or one.location is None or not isinstance(one.node, cst.BaseExpression):
            continue
        module = plan.module_of(one.node)
        set_at = (plan.module_of(move.node) for move in plan.flow.edges_into({one.location}))
        made = module.editable and not any(other.editable for other in set_at)
        if made and CLOCK in plan.flow.sources(one.node, module):
            return Site(one.node, module)
    return None


def _with_its_form(plan: Plan, clock: cst.CSTNode) -> cst.CSTNode:
    """A call with what writes it down: ``datetime.now().strftime(...)``, ``str(time.time())``."""
    parents = plan.module_of(clock).parents
    while True:
        above = parents.get(clock)
        call = parents.get(above) if above is not None else None
        if isinstance(above, cst.Attribute):
            clock = call if isinstance(call, cst.Call) and call.func is above else above
        elif isinstance(above, cst.Arg) and isinstance(call, cst.Call) and _writes(plan, call):
            clock = call
        else:
            return clock


def _writes(plan: Plan, call: cst.Call) -> bool:
    """Whether a call puts a time into another form."""
    names = list(library_names(plan.facts.values.get(call.func)))
    return bool(names) and all(is_clock(name) or name in _FORMS for name in names)
