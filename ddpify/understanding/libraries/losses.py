"""The losses of PyTorch: how each reduces the batch, and over what denominator."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arithmetic import tensor_pairs
from ddpify.understanding.batching import batches, together
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import REPLICATED, UNKNOWN, Const, Data, Instance, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter

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
# Their mean divides by the weights of the targets' classes, or by the targets that count.
_CLASSIFYING = ("nll_loss", "cross_entropy")
_POSITIONS = {"weight": 2, "ignore_index": 4}
HELPER = "{dd}"
"""The runtime helper's name, where code for a denominator calls it."""


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


def call(
    run: Interpreter,
    node: cst.BaseExpression,
    name: str,
    args: list[Value],
    kwargs: dict[str, Value],
    module: Instance | None = None,
) -> Value:
    """The value of a loss on these arguments."""
    options = module.arguments if module is not None else kwargs
    data = [d for one in (*args, *kwargs.values()) for d in one.data]
    for expression, one in _shown(node, args):
        for partial in one.data:
            if partial.placement.partial:
                run.demand(expression, value(partial), "a loss")
    batches.meet(run, _shown(node, args)[:2], surely=True)
    shards = [d for d in data if d.placement in (Placement.SHARD, Placement.ROWS)]
    for rows, targets in combinations(shards[:2], 2):
        together.combine(run, rows, targets)
    if tensor_pairs.beside_whole(run, [(n, a) for n, v in _shown(node, args) for a in v.of(Data)]):  # type: ignore[misc]
        return value(shards[0].placed(Placement.REPLICATE))
    if not shards:
        whole = [a for one in args for a in one.atoms if isinstance(a, Data)]
        return value(whole[0].placed(Placement.REPLICATE)) if whole else REPLICATED
    loaders = frozenset(loader for d in data for loader in d.loaders)
    placement = _placement(options, shards, args, module)
    counted: tuple[str, ...] = ()
    if placement is Placement.MEAN and name in _CLASSIFYING:
        counted = _denominator(node, args, kwargs, module)
        placement = Placement.WEIGHTED if counted else placement
    elif placement is Placement.WEIGHTED:
        counted = _denominator(node, args, kwargs, module) if name in _CLASSIFYING else ()
        counted = counted or _number_of_rows(node)
    # What is divided by more than the number of rows is reduced right here, where the code for
    # its denominator is valid.
    births = frozenset({node}) if counted else frozenset()
    if placement is Placement.ROWS:  # where the rows could be gathered that it picks from
        births = frozenset(birth for d in shards for birth in d.births)
    names = frozenset(name for d in shards for name in d.names)
    names = names if placement is Placement.WEIGHTED else frozenset()
    return value(Data(placement, loaders, births, names, counted=counted))


def _shown(node: cst.BaseExpression, args: list[Value]) -> list[tuple[cst.BaseExpression, Value]]:
    shown = [a.value for a in node.args if a.keyword is None] if isinstance(node, cst.Call) else []
    return list(zip(shown, args, strict=False))


def _placement(
    options: dict[str, Value], shards: list[Data], args: list[Value], module: Instance | None
) -> Placement:
    if any(d.placement is Placement.ROWS for d in shards):
        return Placement.ROWS
    reduction = options["reduction"].constant() if "reduction" in options else "mean"
    average = options.get("size_average", UNKNOWN).constant()
    reduce = options.get("reduce", UNKNOWN).constant()
    if reduction == "none" or reduce is False:
        return Placement.SHARD
    if reduction == "sum" or average is False:
        return Placement.SUM
    if reduction not in ("mean", "batchmean"):
        return Placement.COUPLED
    return Placement.WEIGHTED if any(d.ragged for d in shards) else Placement.MEAN


def _denominator(
    node: cst.BaseExpression,
    args: list[Value],
    kwargs: dict[str, Value],
    module: Instance | None,
) -> tuple[str, ...]:
    """Code for what a classification loss divides by, empty where that is the number of rows."""
    if not isinstance(node, cst.Call):
        return ()
    target = _argument(node, "target", 1)
    if target is None:
        return ()
    names = [n for n in ("weight", "ignore_index") if _given(n, args, kwargs, module)]
    if not names:
        return ()
    code = {n: _option(node, n, module) for n in names}
    rows = code_of(target)
    if "weight" not in code:
        return (f"({rows} != {code['ignore_index']}).sum()",)
    if names == ["weight"] and _is_tensor(_held("weight", args, kwargs, module)):
        return (f"{code['weight']}[{rows}].sum()",)
    # It may be None at run time, and what is ignored need not be one of the classes.
    ignored = f", ignore_index={code['ignore_index']}" if "ignore_index" in code else ""
    return (f"{HELPER}.target_weight({rows}, {code['weight']}{ignored})",)


def _is_tensor(weight: Value) -> bool:
    """Whether a loss's weights are surely given."""
    return bool(weight) and not any(isinstance(a, Const) for a in weight.atoms)


def _number_of_rows(node: cst.BaseExpression) -> tuple[str, ...]:
    """Code for how many rows a loss gets, for those that a mask leaves of the batch."""
    rows = _argument(node, "target", 1) if isinstance(node, cst.Call) else None
    return (f"len({code_of(rows)})",) if rows is not None else ()


def _given(name: str, args: list[Value], kwargs: dict[str, Value], module: Instance | None) -> bool:
    held = _held(name, args, kwargs, module)
    return held.constant() is not None and (bool(held) or _named(name, module, kwargs))


def _held(name: str, args: list[Value], kwargs: dict[str, Value], module: Instance | None) -> Value:
    """The value of an option, empty where it is not given or not known."""
    if module is not None:
        position = {"weight": "0", "ignore_index": "2"}[name]
        return module.arguments.get(name, module.arguments.get(position, UNKNOWN))
    if len(args) > _POSITIONS[name]:
        return args[_POSITIONS[name]]
    return kwargs.get(name, UNKNOWN)


def _named(name: str, module: Instance | None, kwargs: dict[str, Value]) -> bool:
    return name in (module.arguments if module is not None else kwargs)


def _option(node: cst.Call, name: str, module: Instance | None) -> str:
    if module is not None:
        return f"{code_of(node.func)}.{name}"
    given = _argument(node, name, _POSITIONS[name])
    return code_of(given) if given is not None else name


def _argument(node: cst.Call, name: str, position: int) -> cst.BaseExpression | None:
    for argument in node.args:
        if argument.keyword is not None and argument.keyword.value == name:
            return argument.value
    positional = [a.value for a in node.args if a.keyword is None and not a.star]
    return positional[position] if len(positional) > position else None
