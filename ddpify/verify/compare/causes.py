"""From the pattern of a difference to what is probably behind it."""

from __future__ import annotations

import statistics

from ddpify.verify.compare.evidence import Evidence
from ddpify.verify.verdict import Cause

_RATIO_SPREAD = 1e-6


def data(evidence: Evidence) -> Cause | None:
    """Why other samples entered the model."""
    rows = evidence.rows
    if rows is None or rows.same:
        return None
    if rows.everywhere:
        return Cause(
            "every rank trains on all samples of the batch: the loader is not split",
            "give each rank its own slice of each batch (a sampler, or dd.shard(loader))",
            ("DDP101",),
        )
    if rows.missing and rows.extra:
        return Cause(
            "the global batch has other samples than the original's: a sampler with an order of "
            "its own, without set_epoch, or seeded differently on each rank",
            "check the sampler's seed, rank and set_epoch; an order of its own "
            "is no error by itself",
            ("DDP102", "DDP104", "DDP604"),
        )
    if rows.missing:
        return Cause(
            "samples of the batch reach no rank",
            "check how the batch is sliced when its size is not a multiple of the world size",
            ("DDP104",),
        )
    return Cause(
        "samples of the batch reach more than one rank",
        "check the sampler's rank and number of replicas, and its padding",
        ("DDP101", "DDP104"),
    )


def gradient(evidence: Evidence) -> Cause | None:
    """Why gradients are not the original's."""
    if evidence.gradients_apart:
        return _apart(evidence)
    if found := data(evidence):
        return found
    if found := _scaled(evidence):
        return found
    if evidence.batch_norm:
        return Cause(
            "BatchNorm layers use the statistics of each rank's own batch",
            "convert them with SyncBatchNorm, or dd.wrap(model), before wrapping",
            ("DDP312",),
        )
    return Cause(
        "the ranks' gradients are averaged with weights that do not fit the loss (uneven batches, "
        "a loss over valid tokens, or one that couples the samples of a batch)",
        "weight each rank's loss by its share of the global batch",
        ("DDP408", "DDP412", "DDP413"),
    )


def _apart(evidence: Evidence) -> Cause:
    names = [evidence.name(item.at) for item in evidence.gradients_apart]
    if len(names) == len(evidence.names):
        return Cause(
            "no gradient is averaged over the ranks: the model is not wrapped, or its forward was "
            "called past the wrapper",
            "wrap the model in DistributedDataParallel and call the wrapper itself",
            ("DDP303", "DDP304", "DDP302"),
        )
    shown = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    return Cause(
        f"some parameters are outside the wrapper's averaging: {shown}",
        "wrap the module that holds them, after it is complete and its requires_grad are set",
        ("DDP305", "DDP306", "DDP307"),
    )


def _scaled(evidence: Evidence) -> Cause | None:
    """One factor on all gradients."""
    if not evidence.ratios:
        return None
    ratio = statistics.median(evidence.ratios)
    spread = sum(abs(value / ratio - 1) > _RATIO_SPREAD for value in evidence.ratios)
    if abs(ratio - 1) < _RATIO_SPREAD or spread > len(evidence.ratios) // 10:
        return None
    if abs(ratio * evidence.world_size - 1) < _RATIO_SPREAD:
        return Cause(
            f"every gradient is 1/{evidence.world_size} of the original's: the loss is a sum "
            "over the batch, or is divided by the world size, and DDP averages it again",
            "multiply a summed loss by the world size; do not divide a mean by it",
            ("DDP408", "DDP409", "DDP410"),
        )
    if abs(ratio / evidence.world_size - 1) < _RATIO_SPREAD:
        return Cause(
            f"every gradient is {evidence.world_size} times the original's: the sum over the ranks "
            "is used where their mean is due",
            "divide by the world size once",
            ("DDP409", "DDP408"),
        )
    return Cause(
        f"every gradient is {ratio:.6g} times the original's: a factor of the loss differs "
        "(accumulation, batch size)",
        "compare the numbers that the loss is divided by",
        ("DDP416", "DDP408"),
    )


def learning_rate(evidence: Evidence) -> Cause:
    """Why learning rates differ."""
    ranks = evidence.rates[1:]
    if any(rates != ranks[0] for rates in ranks):
        return Cause(
            "the learning rate depends on the rank: the scheduler steps on some ranks only, or on "
            "a metric that each rank computes for itself",
            "step the scheduler on every rank, with a metric reduced over all ranks",
            ("DDP406",),
        )
    return Cause(
        "the learning rate is another than the original's on every rank: scaled with the world "
        "size, or the scheduler steps another number of times",
        "keep the original's learning rate while the global batch stays the same",
        ("DDP406",),
    )


def parameter(evidence: Evidence) -> Cause:
    """Why parameters differ although gradients and learning rates agree."""
    if evidence.parameters_apart:
        return Cause(
            "something changes parameters outside the optimizer's gradients, or only on some ranks",
            "let every rank do the same step; load and initialise before wrapping",
            ("DDP407", "DDP406", "DDP308"),
        )
    return Cause(
        "the optimizer's state or its options differ, or parameters are changed besides its step",
        "compare the optimizer's arguments, weight decay and anything that writes to parameters",
        ("DDP407", "DDP308"),
    )


START = Cause(
    "the model starts from other weights: the random numbers drawn before it are not the "
    "original's",
    "seed every rank alike before the model is built",
    ("DDP308",),
)
BETWEEN = Cause(
    "between two steps, something other than the optimizer changes parameters, not on "
    "all ranks alike",
    "do it on every rank with the same numbers, or before wrapping",
    ("DDP407", "DDP308"),
)
HANG = Cause(
    "the ranks do not take part in the same collectives: one left a loop early, or a collective "
    "or a forward of the wrapped model is under a condition that depends on the rank",
    "let all ranks take the decision together: reduce the value or flag it depends on",
    ("DDP401", "DDP402", "DDP403"),
)
STEPS = Cause(
    "loops run another number of times: batches per epoch, accumulation or an early end differ",
    "keep the number of batches the original has; decide about stopping on all ranks together",
    ("DDP402", "DDP407"),
)
WORK = Cause(
    "a rank does the work of all: the batches are not divided among the ranks",
    "give each rank its own slice of each batch (a sampler, or dd.shard(loader))",
    ("DDP101",),
)
PRINTED_TWICE = Cause(
    "every rank prints",
    "print on rank 0 alone",
)
PRINTED_NUMBER = Cause(
    "a number that is printed is one rank's, not that of all samples",
    "reduce it over the ranks, weighted by their samples, before it is printed or decided upon",
    ("DDP405", "DDP111", "DDP413"),
)
WRITTEN_TWICE = Cause(
    "every rank writes the file",
    "write on rank 0 alone",
)
WRAPPED_KEYS = Cause(
    "the checkpoint holds the wrapper's keys",
    "save the state_dict of the wrapped module (model.module)",
)
