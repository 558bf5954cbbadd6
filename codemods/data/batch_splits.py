"""Give each rank its rows of the batches that the script makes by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from ddpify.planning.bindings import is_bound_name
from ddpify.planning.edits import Change, Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site
from ddpify.understanding.syntax import brief, code_of

_RULE = "manual-batches-same-on-all-ranks"
_FILLED_BY_OTHERS = (
    "multiprocessing.Queue",
    "torch.multiprocessing.Queue",
    "multiprocessing.SimpleQueue",
    "torch.multiprocessing.SimpleQueue",
    "queue.Queue",
)


def edit(plan: Plan, edits: Edits) -> None:
    """Split the expressions that make batches, or the names that they are unpacked into."""
    function = f"{plan.options.alias}.shard_batch"
    named: dict[tuple[Site, int], list[Site]] = defaultdict(list)
    split, flat = _split(plan), plan.choices.flat
    _refuse_larger(plan, split)
    if split:
        _note_queues(plan, edits)
    tuples = list(
        _replicated_tuples({site: dim for site, dim in split.items() if site.node not in flat})
    )
    for site, dim in split.items():
        if is_bound_name(site) and site.node not in flat:
            named[Site(site.module.part(site.node), site.module), dim].append(site)
        elif site.node not in flat and _tuple_of(site) not in tuples:
            edits.wrap(site.node, function, _extra(dim) + _beside(plan, site, split))
        text = f"{brief(site.node)}: every process makes the whole batch and keeps its own rows"
        edits.note(site, text, rule=_RULE)
    for (statement, dim), names in named.items():
        _split_names(edits, statement, names, function, _extra(dim))
    for parts in tuples:
        dim = next(dim for site, dim in split.items() if site.node is parts.elements[0].value)
        edits.change(parts, _spread(function, _extra(dim)))
    for site in (site for site in split if site.node in flat):
        if not _follows_a_batch(site, [other for other in split if other.node not in flat]):
            plan.refuse(
                Refusal(
                    site.module,
                    site.node,
                    "this is flattened before the batch that it belongs to is made",
                    "make the batch first, or flatten it after that",
                )
            )
        _split_flat(edits, site, f"{plan.options.alias}.split")


def _note_queues(plan: Plan, edits: Edits) -> None:
    """What several processes or threads fill comes in another order on each rank."""
    for name, site in plan.facts.calls_to(*_FILLED_BY_OTHERS):
        text = (
            f"{name}() gives what comes first: where batches come out of it, several that fill it"
            " would give ranks other batches in one step; let one fill it, with a seed, or take"
            f" {plan.options.alias}.broadcast() of what it gives"
        )
        edits.note(site, text, attention=True)


def _refuse_larger(plan: Plan, split: dict[Site, int]) -> None:
    """Nothing but the script can make a batch of its own larger."""
    if split and plan.options.batch == "per-rank":
        site = next(iter(split))
        message = "the script makes this batch by hand: --batch per-rank cannot make it larger"
        remedy = "leave out --batch per-rank, and give the script the global batch's size"
        plan.refuse(Refusal(site.module, site.node, message, remedy))


def _split(plan: Plan) -> dict[Site, int]:
    """The places where batches are split, and the dimension of their rows there."""
    kept = plan.choices.replicated | plan.facts.by_hand.split_before.keys()
    places = plan.choices.batches.items()
    return {
        plan.site(node): dim
        for node, dim in places
        if node not in kept and not stays_whole(plan, node)
    }


def stays_whole(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a batch would be gathered where it is made: then no rank takes its rows of it."""
    reduction = plan.reductions.get(node)
    gathered = reduction is not None and reduction.how == "gather"
    made_whole = node not in plan.facts.by_hand.split_before
    return gathered and made_whole and node in plan.choices.batches


def _extra(dim: int) -> str:
    return f", dim={dim}" if dim else ""


def _beside(plan: Plan, site: Site, split: dict[Site, int]) -> str:
    """The argument for what enters a model beside a batch that the same lines have split before.

    It is taken for one with as many rows, which only a run can tell.
    """
    together = [one for one in plan.facts.by_hand.entered_together if site.node in one]
    others = (one for one in split if any(one.node in places for places in together))
    return ", beside=True" if any(_stands_before(one, site) for one in others) else ""


def _stands_before(one: Site, other: Site) -> bool:
    """Whether a place comes before another in the same lines."""
    if one.module is not other.module:
        return False
    module = one.module
    blocks = [module.parents[module.statement(site.node)] for site in (one, other)]
    return blocks[0] is blocks[1] and module.offsets(one.node)[0] < module.offsets(other.node)[0]


def _tuple_of(site: Site) -> cst.Tuple | None:
    """The tuple that an expression is an element of, where a statement assigns it."""
    parents = site.module.parents
    parts = parents.get(parents[site.node])
    assigned = isinstance(parts, cst.Tuple) and isinstance(parents[parts], cst.Assign)
    return parts if assigned else None  # type: ignore[return-value]


def _replicated_tuples(split: dict[Site, int]) -> Iterator[cst.Tuple]:
    """Tuples whose elements are all split along one dimension."""
    dims = {site.node: dim for site, dim in split.items()}
    for parts in dict.fromkeys(_tuple_of(site) for site in split if not is_bound_name(site)):
        if parts is not None and len({dims.get(e.value) for e in parts.elements}) == 1:
            yield parts


def _spread(function: str, extra: str) -> Change:
    """``function(a, b)`` in place of ``a, b``."""

    def change(parts: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(parts, cst.Tuple)
        names = ", ".join("_" for _ in parts.elements)
        call = cst.parse_expression(f"{function}({names}{extra})")
        assert isinstance(call, cst.Call)
        given = [
            argument.with_changes(value=element.value)
            for argument, element in zip(call.args, parts.elements, strict=False)
        ]
        return call.with_changes(args=[*given, *call.args[len(given) :]])

    return change


def _split_names(
    edits: Edits, statement: Site, names: list[Site], function: str, extra: str
) -> None:
    """``x, y = shard_batch(x, y)``, after an assignment or as the first line of a loop."""
    ordered = sorted(names, key=lambda site: site.module.offsets(site.node))
    listed = ", ".join(code_of(site.node) for site in ordered)
    code = f"{listed} = {function}({listed}{extra})\n"
    if isinstance(statement.node, cst.For):
        edits.insert_before(statement.node.body.body[0], code)
    else:
        edits.insert_after(statement.node, code)


def _follows_a_batch(site: Site, batches: list[Site]) -> bool:
    """Whether a batch is split earlier in the same function, or in the same statement."""
    function = site.module.function(site.node)
    start = site.module.offsets(site.module.statement(site.node))[0]
    return any(
        batch.module.function(batch.node) is function
        and batch.module.offsets(batch.module.statement(batch.node))[0] <= start
        for batch in batches
    )


def _split_flat(edits: Edits, site: Site, function: str) -> None:
    """What is flattened has several rows for a sample: it goes by the batch that it belongs to."""
    if is_bound_name(site):
        statement = Site(site.module.part(site.node), site.module)
        _split_names(edits, statement, [site], function, "")
    else:
        edits.wrap(site.node, function)
