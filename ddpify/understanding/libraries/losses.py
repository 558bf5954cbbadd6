"""The losses of PyTorch: how each reduces the batch, and over what denominator."""

from __future__ import annotations

from itertools import combinations, permutations, product
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import argument_pairs
from ddpify.understanding.arithmetic import (
    across_samples,
    lifted_rows,
    pair_placements,
    single_samples,
    tensor_pairs,
)
from ddpify.understanding.arithmetic.denominators import LossCall, denominator
from ddpify.understanding.batching import handmade_batches, joint_loaders
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout
from ddpify.understanding.operators import loss_options
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    Bound,
    Const,
    Data,
    Function,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_FUNCTIONS = {
    "nll_loss", "cross_entropy", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss",
    "gaussian_nll_loss", "hinge_embedding_loss", "margin_ranking_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "soft_margin_loss", "multi_margin_loss", "ctc_loss",
    "cosine_embedding_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
    "linear_cross_entropy",
}  # fmt: skip
_MODULES = {
    "NLLLoss": "nll_loss", "CrossEntropyLoss": "cross_entropy", "MSELoss": "mse_loss",
    "L1Loss": "l1_loss", "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss",
    "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "KLDivLoss": "kl_div", "PoissonNLLLoss": "poisson_nll_loss", "NLLLoss2d": "nll_loss",
    "GaussianNLLLoss": "gaussian_nll_loss", "HingeEmbeddingLoss": "hinge_embedding_loss",
    "MarginRankingLoss": "margin_ranking_loss", "MultiLabelMarginLoss": "multilabel_margin_loss",
    "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "SoftMarginLoss": "soft_margin_loss", "MultiMarginLoss": "multi_margin_loss",
    "CTCLoss": "ctc_loss", "CosineEmbeddingLoss": "cosine_embedding_loss",
    "TripletMarginLoss": "triplet_margin_loss",
    "TripletMarginWithDistanceLoss": "triplet_margin_with_distance_loss",
}  # fmt: skip

_DEFAULTS = {"reduction": "mean", "ignore_index": -100, "weight": None}
_OF_THREE = frozenset(
    "cosine_embedding_loss gaussian_nll_loss margin_ranking_loss triplet_margin_loss"
    " triplet_margin_with_distance_loss".split()
)
# Forms of rows that are those of one sample each.
_A_ROW_EACH = (Layout.TENSOR, *SEVERAL_TENSORS, Layout.YIELDED)


def is_function(name: str) -> bool:
    """Whether a qualified name is a functional loss."""
    head, _, last = name.rpartition(".")
    return head in ("torch.nn.functional", "torch.functional", "torch") and last in _FUNCTIONS


def is_module(name: str) -> bool:
    """Whether a qualified name is a loss class."""
    head, _, last = name.rpartition(".")
    return head.startswith("torch.nn") and last in _MODULES


def function_name(module: str) -> str:
    """The functional form of a loss class."""
    return _MODULES[module.rsplit(".", 1)[-1]]


def is_option(name: str) -> bool:
    """Whether a loss class keeps an option of this name."""
    return name in _DEFAULTS


def default(name: str) -> Value:
    """What an option is unless told."""
    return value(Const(_DEFAULTS[name]))


def call(run: RunState, loss: LossCall) -> Value:
    """The value of a loss on these arguments."""
    shown = loss.shown()
    _take_numbers(run, loss)
    handmade_batches.meet(run, shown[:2], surely=True, unseen=loss.name == "ctc_loss")
    if loss.name in _OF_THREE:  # the third may be one number for all samples
        handmade_batches.meet(run, shown[:3])
    data = [d for one in (*loss.args, *loss.kwargs.values()) for d in one.data]
    shards = [d for d in data if d.placement in (Placement.SHARD, Placement.ROWS)]
    for rows, targets in combinations(shards[:2], 2):
        joint_loaders.combine(run, rows, targets)
    _tell_orders_apart(run, shown[:2])
    if not shards:
        replicated = [a for one in loss.args for a in one.atoms if isinstance(a, Data)]
        return value(replicated[0].placed(Placement.REPLICATE)) if replicated else REPLICATED
    held = [(n, a) for n, v in shown for a in v.of(Data)]
    in_loop = not run.frames_forward()
    if not (in_loop and across_samples.split_beside(run, held)) and tensor_pairs.beside_replicated(
        run, held
    ):
        return value(_of_all_rows(loss, shards))
    parts = [(n, d) for n, v in shown for d in v.data]
    of_others = single_samples.meet_others(run, loss.node, parts)
    if of_others is not None:
        return of_others
    _take_positions(run, loss)
    tensor_pairs.note_used_on_rows(run, [a for one in loss.args for a in one.of(Data)])
    coupled = _weighs_anew(run, loss) or _measures_across(run, loss)
    if coupled or _meet_crosswise(run, loss) or _is_of_another_layout(loss):
        return tensor_pairs.mixed(run, loss.node, shards[0], shown)
    made = value(_of_rows(run, loss, data, shards))
    elements = loss.name in loss_options.OF_ELEMENTS
    return lifted_rows.noted(run, made, shown) if elements else made


def _of_all_rows(loss: LossCall, shards: list[Data]) -> Data:
    """What a loss of the rows of all ranks gives: one of each of them, or a number."""
    each = _placement(loss, shards) is Placement.SHARD
    whole = shards[0].placed(Placement.REPLICATE)
    return replace(whole, form=Layout.GATHERED) if each else whole


def _take_positions(run: RunState, loss: LossCall) -> None:
    """Numbers that count the samples are those of all ranks' beside what is made of each sample."""
    given = argument_pairs(loss.node, loss.args, loss.kwargs)
    first = given[0][1].data
    plain = bool(first) and all(d.placement is Placement.SHARD and not d.counting for d in first)
    for shown, held in given[1:] if plain else ():
        run.demand(shown, value(*(d for d in held.data if d.counting)), uses.POSITIONS)


def _weighs_anew(run: RunState, loss: LossCall) -> bool:
    """Whether the weights of classes are computed of the batch in the call itself.

    The denominator would compute them a second time, of a rank's rows alone.
    """
    if loss.name not in loss_options.OF_CLASSES or "weight" not in loss.options:
        return False
    made = loss.node.func if loss.module is not None and isinstance(loss.node, cst.Call) else None
    shown = loss.arguments().get("weight") if made is None else made
    return isinstance(shown, cst.CSTNode) and any(
        isinstance(atom, Data) and (atom.placement.local or atom.form is Layout.GATHERED)
        for name in _names_in(shown)
        for atom in run.seen(name).atoms
    )


def _names_in(shown: cst.BaseExpression) -> list[cst.Name]:
    """The variables of an expression that computes; none of a variable or an attribute alone."""
    if isinstance(shown, (cst.Name, cst.Attribute)):
        return []
    return [node for node in walk(shown) if isinstance(node, cst.Name)]


def _measures_across(run: RunState, loss: LossCall) -> bool:
    """Whether the script's own distance is none of each sample's, but one of several."""
    own = loss.options.get("distance_function", REPLICATED)
    if not any(own.of(Function, Bound)) or len(loss.args) < 2:
        return False
    made = run.call(loss.node, own, list(loss.args[:2]), {})
    each = all(d.placement is Placement.SHARD and not d.ragged for d in made.data)
    return not (made.data and each)


def _is_of_another_layout(loss: LossCall) -> bool:
    """Whether samples lie along a dimension of the first tensor that is not theirs."""
    if loss.name == "linear_cross_entropy" and len(loss.args) > 1 and loss.args[1].data:
        return True  # rows as weights
    given = loss_options.given_to_function(loss.name, loss.args, loss.kwargs)
    if loss.name == "ctc_loss" and not given.get("targets", REPLICATED).data:
        return True  # those of all samples lie behind each other: their lengths tell them apart
    rows = [d for d in loss.args[0].data if d.placement is Placement.SHARD] if loss.args else []
    return any(loss_options.takes_samples_for_another(loss.name, one) for one in rows)


def _meet_crosswise(run: RunState, loss: LossCall) -> bool:
    """Whether broadcasting puts each row beside all others, as a column and a line do."""
    if loss.name not in loss_options.OF_ELEMENTS or len(loss.args) < 2:
        return False
    pairs = list(product(loss.args[0].data, loss.args[1].data))
    return bool(pairs) and all(pair_placements.crossed(run, *pair) for pair in pairs)


def _take_numbers(run: RunState, loss: LossCall) -> None:
    """What is reduced only in part must be the same number on every rank in a loss.

    So must weights that are made from the batch: those of classes, if they have rows of it.
    """
    shown = loss.arguments()
    for name, one in loss_options.given_to_function(loss.name, loss.args, loss.kwargs).items():
        for partial in one.data:
            if partial.placement.partial:
                run.demand(shown.get(name, loss.node), value(partial), uses.A_LOSS)
    of_classes = loss.name in loss_options.OF_CLASSES
    for name in ("weight", "pos_weight"):
        for data in loss.options.get(name, REPLICATED).data:
            rows = data.placement in (Placement.SHARD, Placement.ROWS)
            if not rows or (of_classes and name == "weight"):
                run.demand(shown.get(name, loss.node), value(data), uses.A_LOSS)


def _tell_orders_apart(run: RunState, shown: list[handmade_batches.Operand]) -> None:
    """Rows of all steps, one sample's behind another's, do not belong to rows that are a sample's.

    Then a view has put several steps of different samples into one row.
    """
    held = [(node, [d for d in one.data if not d.opaque]) for node, one in shown]
    for (node, rows), (_, others) in permutations(held, 2):
        each = bool(others) and all(d.dim == 0 and d.form in _A_ROW_EACH for d in others)
        if each and rows and all(d.form is Layout.INTERLEAVED for d in rows):
            cut = Data(
                Placement.SHARD, rows[0].loaders, form=Layout.PACKED
            )  # no reduction suits it
            run.demand(node, value(cut), uses.A_VIEW)


def _of_rows(run: RunState, loss: LossCall, data: list[Data], shards: list[Data]) -> Data:
    """What a loss of a rank's rows gives; one of a single sample is a number of that sample's."""
    alone = [d for d in shards if d.dim == NO_ROWS]
    if alone:
        return replace(alone[0], definition_sites=frozenset(), ndim=0)
    placement = _placement(loss, shards)
    counted: tuple[str, ...] = ()
    if placement in (Placement.MEAN, Placement.WEIGHTED):
        marked = any(file.marks_targets for file in run.project.files)
        counted = denominator(loss, masked=placement is Placement.WEIGHTED, marked=marked)
        placement = Placement.WEIGHTED if counted else placement
    # What is divided by more than the number of rows is reduced right here, where the code for
    # its denominator is valid.
    definition_sites = frozenset({loss.node}) if counted else frozenset()
    if placement is Placement.ROWS:  # where the rows could be gathered that it picks from
        definition_sites = frozenset(
            definition_site for d in shards for definition_site in d.definition_sites
        )
    loaders = frozenset(loader for d in data for loader in d.loaders)
    names = frozenset(name for d in shards for name in d.names)
    parted = placement is Placement.SHARD and any(d.parted for d in shards)
    names = names if parted or placement is Placement.WEIGHTED else frozenset()
    left = placement is Placement.SHARD and _is_ragged(loss, shards)  # a loss for each
    form = Layout.MASKED if left else Layout.TENSOR
    made = Data(placement, loaders, definition_sites, names, form=form, counted=counted)
    return replace(made, one_each=True, parted=parted)


def _placement(loss: LossCall, shards: list[Data]) -> Placement:
    if any(d.placement is Placement.ROWS for d in shards):
        return Placement.ROWS
    return loss_options.reduction(loss.options, ragged=_is_ragged(loss, shards))


def _is_ragged(loss: LossCall, shards: list[Data]) -> bool:
    """Whether there are more losses than samples, or fewer.

    CTC has one for each sample, although the targets of all may lie behind each other.
    """
    behind_each_other = loss.name == "ctc_loss" and loss.args
    counted = loss.args[0].data if behind_each_other else shards
    return any(one.ragged for one in counted)
