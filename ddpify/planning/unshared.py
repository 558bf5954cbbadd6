"""What keeps a training from being shared: refused once all decisions are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ddpify.planning import losses_of_all
from ddpify.planning.other_kinds import lost_loss
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal, at
from ddpify.understanding import uses
from ddpify.understanding.facts import Demand, Facts, Site
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Data, Instance

_WORDS = {
    Placement.REPLICATE: "a value",
    Placement.SHARD: "samples of the batch",
    Placement.ROWS: "samples picked from the batch by their position",
    Placement.MEAN: "a mean over the batch",
    Placement.SUM: "a sum over the batch",
    Placement.COUNT: "the size of the batch",
    Placement.PER_COUNT: "something divided by the size of the batch",
    Placement.WEIGHTED: "a mean over some of the batch",
    Placement.COUPLED: "a value that mixes the samples of the batch with each other",
}
_REMEDIES = {
    uses.ANOTHER_CALL: "write this in lines of their own for the different things that it"
    " gets, such as a mean in one branch and per-sample values in the other",
    uses.A_DRAW: "draw for the whole batch at once, as torch.rand(len(x)) does",
    uses.A_KEPT_TENSOR: "write it outside of the forward, by the labels or positions of the"
    " samples, or from a mean or a sum over the batch",
    uses.A_CUT: "cut it by this rank's number of samples, as torch.split(x, len(batch)) does",
    uses.A_VIEW: "bring the samples to the front first, as x.transpose(0, 1).reshape(len(batch),"
    " -1) does; as it stands, the view gives each sample parts of others",
}
_ALIKE = (
    "as far as ddpify can see, this loss is not computed from a rank's rows of a batch: every rank"
    " would do all of the work"
)
_SIZED = (
    "compute it from a batch, in code that ddpify can read; noise takes as many rows as a batch by"
    " torch.randn(len(x), 8)"
)
_OF_PLACES: tuple[tuple[Callable[[Facts], Iterable[Site]], str, str], ...] = (
    (
        lambda facts: facts.gradients.taken_gradients.values(),
        "autograd.grad() takes gradients of a model's parameters, which are not averaged over the"
        " ranks as those of backward() are",
        "call backward() and use the parameters' .grad",
    ),
    (
        lambda facts: facts.gradients.accumulation_hooks.values(),
        "this hook gets a parameter before its gradient is averaged over the ranks",
        "do this after backward()",
    ),
    (
        lambda facts: [
            *facts.gradients.loose_gradients.values(),
            *facts.gradients.of_either,
        ],
        "this is the gradient of a tensor that no model holds: it would differ between the ranks",
        "make it an nn.Parameter of the model, which uses it in its forward",
    ),
    (
        lambda facts: facts.gradients.taken_of_trained,
        "autograd.grad() takes the gradient of samples that an optimizer trains, which are scaled"
        " for its steps already",
        "call backward() and use their .grad",
    ),
    (
        lambda facts: facts.forwards.made_in_forward.values(),
        "a layer is made in a forward: each rank draws weights of its own for it",
        "make it where the model is made, so that all ranks start from the same weights",
    ),
    (
        lambda facts: facts.rows.along_rows.values(),
        "this layer treats the samples of the batch as the steps of one sequence: its output for a"
        " sample depends on those of the other ranks",
        "give it batch_first=True, or put the steps first, as x.transpose(0, 1) does",
    ),
)
"""Where such a thing stands in the script, what it is, and what would help."""


def lost_losses(plan: Plan) -> Iterator[Refusal]:
    """The losses that cannot be followed back to a batch: their reduction would be a guess."""
    facts = plan.facts
    unused = set(unused_losses(facts))
    for site, loss in facts.backwards.values():
        if site not in unused and not any(isinstance(atom, Data) for atom in loss.atoms):
            alike = bool(loss.atoms) and bool(facts.forwards.row_calls)
            if not (alike and losses_of_all.is_shared(plan, site)):
                yield at(site, _ALIKE, _SIZED) if alike else lost_loss(site)


def unused_losses(facts: Facts) -> Iterator[Site]:
    """The losses of functions that nothing calls, where others are trained on."""
    for node, (site, loss) in facts.backwards.items() if facts.gradients.reached_backwards else ():
        known = any(isinstance(atom, Data) for atom in loss.atoms)
        if node not in facts.gradients.reached_backwards and not known:
            yield site


def of_places(facts: Facts) -> Iterator[Refusal]:
    """Gradients and layers that would differ between the ranks, where they stand."""
    for sites, message, remedy in _OF_PLACES:
        for site in sites(facts):
            yield at(site, message, remedy)


def taken_together(facts: Facts) -> Iterator[Refusal]:
    """Functions of which calls are taken together, and perhaps need not all be reduced."""
    for function, site in facts.taken_together.items():
        name = getattr(function, "name", None)
        yield at(
            site,
            f"{name.value + '()' if name is not None else 'a lambda'} is called in more ways than"
            " ddpify tells apart, and returns parts of a batch in some, something else in others",
            "call it in fewer ways: this is a limit of ddpify's, not an error of the script",
            final=True,
        )


def without_rows(facts: Facts) -> Iterator[Refusal]:
    """What is split among the ranks in one call, and has other rows, or none, in another."""
    for site in facts.loading.split_replicated.values():
        yield at(
            site,
            "this has the rows of all ranks in one call, of which each takes its own, and in"
            " another it is a rank's own rows, or the same on all ranks",
            "let the training and the other call functions of their own, or make what has a row"
            " for each sample of the batch itself, as by torch.zeros_like(x[:, 0])",
        )


def work_of_all(facts: Facts) -> Iterator[Refusal]:
    """Models that only ever train on the rows of all ranks: each rank would do all the work.

    What is trained on collected rows in the end, beside a model whose training is shared, may; and
    a model that treats rows alone is called on a rank's part of them.
    """
    split = {model.site for model in facts.forwards.trained_by_rows}
    for call in facts.forwards.replicated_calls.values():
        beside = bool(split) and not call.in_loop
        beside |= call.site.module.editable and facts.forwards.treat_rows_alone(call.models)
        if call.gathered and not beside and not any(m.site in split for m in call.models):
            yield at(
                call.site,
                "the model would train on the whole batch on every rank: what is computed from its"
                " samples here cannot be computed from the ranks' parts",
                "compute the loss from per-sample values, a mean or a sum over the batch",
            )


def unequal_batches(facts: Facts) -> Iterator[Refusal]:
    """What is made of the batches of two loaders, which may be of different sizes."""
    for use in facts.batches.two_sizes.values():
        yield at(
            use.site,
            f"this is computed from the batches of two loaders ({places(use.loaders)}), which may"
            " have different numbers of samples",
            "give both loaders the same batch_size, and drop_last=True; or compute from each in"
            " lines of their own",
        )


def places(loaders: Iterable[Instance]) -> str:
    """Where loaders are made, by file and line."""
    lines = {f"{one.module.path.name}:{one.module.line(one.site)}" for one in loaders}
    return " and ".join(sorted(lines))


def refuse_reading(demand: Demand) -> Refusal:
    """A training step reads something that no reduction makes global."""
    return Refusal(
        demand.site.module,
        demand.site.node,
        f"{demand.reader} reads {_WORDS[demand.data.placement]},"
        " which cannot be computed from the ranks' parts",
        _REMEDIES.get(
            demand.reader, "compute it from per-sample values, a mean or a sum over the batch"
        ),
    )
