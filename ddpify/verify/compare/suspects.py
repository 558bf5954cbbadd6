"""From the pattern of a difference to its suspected cause."""

from __future__ import annotations

import statistics
from dataclasses import replace

from ddpify.verify.compare import causes
from ddpify.verify.compare.evidence import Evidence, RowComparison
from ddpify.verify.verdict import Cause

_RATIO_SPREAD = 1e-6
_FACTORS = ("DivBackward0", "MulBackward0")


def rows(found: RowComparison) -> Cause:
    """Why other rows enter the model, where no loader tells more."""
    return causes.SAME_BATCHES if found.everywhere else causes.OWN_BATCHES


def gradient(evidence: Evidence) -> Cause:
    """Why gradients are not the original's although the samples are."""
    if evidence.unequal_calls:
        return causes.CONDITIONAL
    if evidence.cleared:
        return causes.ZEROED_EARLY
    if found := _changed(evidence):
        return found
    if evidence.gradients_apart:
        return _apart(evidence)
    if found := _model(evidence):
        return found
    if evidence.wrapped and len(evidence.backwards) > 1 and 0 in evidence.backwards:
        return causes.SEPARATE_BACKWARDS
    if found := _frozen(evidence) or _scaled(evidence) or _not_zeroed(evidence):
        return found
    if evidence.kept:
        text = f"{evidence.kept}, which outlives the steps, is not the original's on some rank"
        return replace(causes.KEPT, text=text)
    if evidence.targets:
        return replace(causes.TARGETS, text=evidence.targets)
    if evidence.batch_norm:
        return causes.SUSPECTED_BATCH_NORM
    return causes.COMPOSED if evidence.same_pairs else causes.WEIGHTS


def _changed(evidence: Evidence) -> Cause | None:
    """Gradients that are changed between backward and step otherwise than in the original.

    A script that averages them itself changes them, too; so the counts of those say little.
    """
    own, *ranks = evidence.changed or [0]
    if any(count != ranks[0] for count in ranks):
        return causes.CHANGED_BY_SOME
    if own and evidence.changed_early:
        return causes.CLIPPED_EARLY
    if not evidence.wrapped or evidence.gradients_apart or not any((own, *ranks)):
        return None
    explained = bool(own) != bool(ranks[0]) or (
        evidence.loss in ("mean", "equal") and evidence.even
    )
    return causes.CHANGED_OTHERWISE if explained else None


def _frozen(evidence: Evidence) -> Cause | None:
    """Parameters that take no gradient on the ranks."""
    off = [item.at for item in evidence.gradients_off]
    if not off or any(evidence.places[at : at + 1] != ["frozen"] for at in off):
        return None
    names = ", ".join(map(evidence.name, off[:3]))
    return replace(causes.FROZEN, text=f"{causes.FROZEN.text}: {names}")


def _model(evidence: Evidence) -> Cause | None:
    """A mode or a setting of the model that is not the original's."""
    in_original, on_ranks = evidence.modes
    if in_original or on_ranks:
        return causes.MODE if on_ranks else replace(causes.MODE, text=causes.TRAINING)
    if evidence.settings:
        return replace(causes.SETTING, text=f"the model is another: {evidence.settings}")
    return None


def buffer(evidence: Evidence) -> Cause:
    """Why a buffer differs although gradients and parameters agree."""
    return _model(evidence) or causes.BUFFER


def _apart(evidence: Evidence) -> Cause:
    """Gradients that differ between the ranks."""
    if len(evidence.gradients_apart) < len(evidence.names):
        return _some_apart(evidence)
    unused = not any(evidence.backwards)
    if not evidence.parameters_apart and (unused or not evidence.wrapped):
        return causes.CLIPPED_EARLY
    if not evidence.wrapped:
        return causes.UNWRAPPED
    if evidence.synchronised and not evidence.synchronised[-1]:
        return causes.NO_SYNC
    if unused:
        return causes.BYPASS if evidence.module_read else causes.STALE
    return causes.SEPARATE_BACKWARDS if len(evidence.backwards) > 1 else causes.MOVED


def _some_apart(evidence: Evidence) -> Cause:
    apart = [item.at for item in evidence.gradients_apart]
    names = ", ".join(map(evidence.name, apart[:3])) + (" ..." if len(apart) > 3 else "")
    kinds = {evidence.places[at] for at in apart if at < len(evidence.places)}
    if kinds == {"frozen"}:
        return Cause(
            f"parameters were frozen when the model was wrapped, and are trained: {names}",
            "wrap the model again after the change of requires_grad",
            ("DDP306",),
        )
    if kinds == {"averaged"}:
        if 2 * len(apart) <= len(evidence.ratios):
            return replace(causes.CHANGED_GRADIENT, text=f"{causes.CHANGED_GRADIENT.text}: {names}")
        if evidence.backwards and not any(evidence.backwards) and evidence.module_read:
            return causes.BYPASS
        if len(evidence.backwards) > 1:
            return causes.SEPARATE_BACKWARDS
        return replace(causes.MOVED, text=f"{causes.MOVED.text} ({names})")
    return Cause(
        f"some parameters are outside the wrapper's averaging: {names}",
        "wrap the module that holds them, after it is complete",
        ("DDP305", "DDP307"),
    )


def _scaled(evidence: Evidence) -> Cause | None:
    """One factor on all gradients."""
    if not evidence.ratios:
        return None
    ratio = statistics.median(evidence.ratios)
    spread = sum(abs(value / ratio - 1) > _RATIO_SPREAD for value in evidence.ratios)
    if abs(ratio - 1) < _RATIO_SPREAD or spread > len(evidence.ratios) // 10:
        return None
    text = f"every gradient is {ratio:.6g} times the original's: "
    cause = _factor(evidence, ratio)
    return replace(cause, text=text + cause.text)


def _factor(evidence: Evidence, ratio: float) -> Cause:
    if abs(ratio * evidence.world_size - 1) < _RATIO_SPREAD:
        own, *ranks = (_factors(roots) for roots in evidence.roots)
        return causes.DIVIDED_LOSS if any(count > own for count in ranks) else causes.SUM_LOSS
    if _not_divided(evidence, ratio):
        return causes.FACTOR
    if abs(ratio / evidence.world_size - 1) < _RATIO_SPREAD:
        return causes.SUMMED_GRADIENT
    return causes.FACTOR


def _factors(roots: list[str]) -> int:
    """How many factors were put on the losses."""
    return sum(name in _FACTORS for root in roots for name in root.split())


def _not_divided(evidence: Evidence, ratio: float) -> bool:
    """Whether the losses already have the factor, and it is the number of micro-batches."""
    micro_batches = len(evidence.backwards)
    same = evidence.loss_ratio and abs(evidence.loss_ratio / ratio - 1) < _RATIO_SPREAD
    return bool(same) and micro_batches > 1 and abs(ratio / micro_batches - 1) < _RATIO_SPREAD


def _not_zeroed(evidence: Evidence) -> Cause | None:
    """Gradients that the original clears and the ranks keep."""
    own, *ranks = _called(evidence, "zero_grad") or [0]
    return causes.NOT_ZEROED if own and not any(ranks) else None


def _called(evidence: Evidence, method: str) -> list[int]:
    """How often each run has called a method since the last step, the original first."""
    return [
        sum(count for name, count in calls.items() if name.endswith(f".{method}"))
        for calls in evidence.calls
    ]


def learning_rate(evidence: Evidence) -> Cause:
    """Why learning rates differ."""
    own, *ranks = evidence.rates
    if any(rates != ranks[0] for rates in ranks):
        return causes.CONDITIONAL if evidence.unequal_calls else causes.LOCAL_RATE
    if len(set(_called(evidence, "step"))) > 1:
        return causes.SCHEDULED
    ratios = {round(b / a, 9) for a, b in zip(own, ranks[0], strict=False) if a}
    return causes.SCALED_RATE if evidence.first and len(ratios) == 1 else causes.OTHER_RATE


def parameter(evidence: Evidence) -> Cause:
    """Why parameters differ although gradients and learning rates agree."""
    if evidence.unequal_calls:
        return causes.CONDITIONAL
    if any(clips != evidence.clips[0] for clips in evidence.clips[1:]):
        return causes.CLIPPED
    if evidence.parameters_apart:
        return causes.CONDITIONAL
    if any(kind != evidence.types[0] for kind in evidence.types[1:]):
        text = f"the optimizer is {evidence.types[1]}, not {evidence.types[0]}"
        return replace(causes.OPTIMIZER, text=text)
    return _options(evidence) or causes.OPTIMIZER


def _options(evidence: Evidence) -> Cause | None:
    """An option of a parameter that is not the original's."""
    own, *ranks = evidence.options
    for options in ranks[:1]:
        for at, (mine, theirs) in enumerate(zip(own, options, strict=False)):
            for name in mine.keys() & theirs.keys():
                if mine[name] != theirs[name]:
                    text = f"{name} of {evidence.name(at)} is {theirs[name]:g}, not {mine[name]:g}"
                    return replace(causes.OPTIMIZER, text=f"the optimizer's options differ: {text}")
    return None
