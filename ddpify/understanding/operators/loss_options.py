"""What PyTorch's losses are told, by keyword or by position, and how they reduce by that.

The parameters are those of ``torch.nn.functional`` and ``torch.nn``; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import NO_ROWS, UNKNOWN, Const, Data, Value, value

_LEGACY = "size_average reduce reduction"
_WEIGHING = f"weight {_LEGACY}"
_OF_CLASSES = "weight size_average ignore_index reduce reduction label_smoothing"
_OF_MARGINS = f"p margin weight {_LEGACY}"
_POISSON = "log_input full size_average eps reduce reduction"
_TRIPLETS = f"margin p eps swap {_LEGACY}"

# The parameters of each function, the tensors first.
PARAMETERS: dict[str, tuple[str, ...]] = {
    name: tuple(parameters.split())
    for name, parameters in {
        "binary_cross_entropy": f"input target {_WEIGHING}",
        "binary_cross_entropy_with_logits": f"input target {_WEIGHING} pos_weight",
        "cosine_embedding_loss": f"input1 input2 target margin {_LEGACY}",
        "cross_entropy": f"input target {_OF_CLASSES}",
        "ctc_loss": "log_probs targets input_lengths target_lengths blank reduction zero_infinity",
        "gaussian_nll_loss": "input target var full eps reduction",
        "hinge_embedding_loss": f"input target margin {_LEGACY}",
        "huber_loss": "input target reduction delta weight",
        "kl_div": f"input target {_LEGACY} log_target",
        "l1_loss": f"input target {_LEGACY} weight",
        "linear_cross_entropy": "input linear_weight target",
        "margin_ranking_loss": f"input1 input2 target margin {_LEGACY}",
        "mse_loss": f"input target {_LEGACY} weight",
        "multi_margin_loss": f"input target {_OF_MARGINS}",
        "multilabel_margin_loss": f"input target {_LEGACY}",
        "multilabel_soft_margin_loss": f"input target {_WEIGHING}",
        "nll_loss": f"input target {_OF_CLASSES.removesuffix(' label_smoothing')}",
        "poisson_nll_loss": f"input target {_POISSON}",
        "smooth_l1_loss": f"input target {_LEGACY} beta",
        "soft_margin_loss": f"input target {_LEGACY}",
        "triplet_margin_loss": f"anchor positive negative {_TRIPLETS}",
        "triplet_margin_with_distance_loss": "anchor positive negative",
    }.items()
}
# The parameters with which each class is made.
MADE_WITH: dict[str, tuple[str, ...]] = {
    name: tuple(parameters.split())
    for name, parameters in {
        "BCELoss": _WEIGHING,
        "BCEWithLogitsLoss": f"{_WEIGHING} pos_weight",
        "CTCLoss": "blank reduction zero_infinity",
        "CosineEmbeddingLoss": f"margin {_LEGACY}",
        "CrossEntropyLoss": _OF_CLASSES,
        "GaussianNLLLoss": "",
        "HingeEmbeddingLoss": f"margin {_LEGACY}",
        "HuberLoss": "reduction delta",
        "KLDivLoss": f"{_LEGACY} log_target",
        "L1Loss": _LEGACY,
        "MSELoss": _LEGACY,
        "MarginRankingLoss": f"margin {_LEGACY}",
        "MultiLabelMarginLoss": _LEGACY,
        "MultiLabelSoftMarginLoss": _WEIGHING,
        "MultiMarginLoss": _OF_MARGINS,
        "NLLLoss": _OF_CLASSES.removesuffix(" label_smoothing"),
        "NLLLoss2d": _OF_CLASSES.removesuffix(" label_smoothing"),
        "PoissonNLLLoss": _POISSON,
        "SmoothL1Loss": f"{_LEGACY} beta",
        "SoftMarginLoss": _LEGACY,
        "TripletMarginLoss": _TRIPLETS,
        "TripletMarginWithDistanceLoss": "",
    }.items()
}
# These weigh each element, and divide by the sum of the weights.
WEIGHED = ("l1_loss", "mse_loss")
# These compare two tensors element by element.
OF_ELEMENTS = frozenset(
    "huber_loss kl_div l1_loss mse_loss multilabel_soft_margin_loss poisson_nll_loss"
    " smooth_l1_loss soft_margin_loss".split()
)
# The functions whose ``weight`` has a number for each class.
OF_CLASSES = frozenset(
    "cross_entropy linear_cross_entropy multi_margin_loss multilabel_soft_margin_loss"
    " nll_loss".split()
)
# The functions for which the second dimension is that of classes or features.
_OF_VECTORS = OF_CLASSES | frozenset(
    "cosine_embedding_loss multilabel_margin_loss triplet_margin_loss"
    " triplet_margin_with_distance_loss".split()
)
_NOT_GIVEN = value(Const(None))


def given_to_function(
    name: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> dict[str, Value]:
    """The arguments of a functional loss, each by its parameter."""
    return {**dict(zip(PARAMETERS.get(name, ()), args, strict=False)), **kwargs}


def given_to_class(name: str, arguments: Mapping[str, Value]) -> dict[str, Value]:
    """What an object of a loss class was made with, each by its parameter.

    Args:
        name: The class, without its package.
        arguments: What it was made with; positions are keys, ``"0"`` the first.
    """
    parameters = MADE_WITH.get(name, ())
    known = dict(arguments)
    for place, parameter in enumerate(parameters):
        if str(place) in arguments:
            known[parameter] = arguments[str(place)]
    return known


def takes_samples_for_another(name: str, rows: Data) -> bool:
    """Whether the samples lie along a dimension that a loss takes for one of something else.

    That is time for the first of ``ctc_loss``, and classes or features for many.
    """
    if rows.form is not Layout.TENSOR or rows.opaque or rows.dim == NO_ROWS:
        return False
    return rows.dim != 1 if name == "ctc_loss" else name in _OF_VECTORS and rows.dim == 1


def reduction(options: Mapping[str, Value], *, ragged: bool) -> Placement:
    """The placement of a loss of this rank's rows.

    Args:
        options: What the loss was told, each by its parameter.
        ragged: Whether ranks have any number of rows.
    """
    how = _reduction(options)
    if how == "none":
        return Placement.SHARD
    if how == "sum":
        return Placement.SUM
    if how not in ("mean", "batchmean"):
        return Placement.COUPLED
    return Placement.WEIGHTED if ragged else Placement.MEAN


def _reduction(options: Mapping[str, Value]) -> object:
    """The name of a reduction; ``...`` where it is not known.

    The former options go first where they are given, as in ``torch.nn._reduction``.
    """
    legacy = [options.get(name, _NOT_GIVEN).constant() for name in ("size_average", "reduce")]
    if legacy == [None, None]:
        return options["reduction"].constant() if options.get("reduction", UNKNOWN) else "mean"
    average, reduce = (True if one is None else one for one in legacy)
    if reduce is False:
        return "none"
    if average is ... or reduce is ...:
        return ...
    return "mean" if average else "sum"
