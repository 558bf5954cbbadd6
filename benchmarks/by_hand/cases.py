"""Bugs and right variants of the ports in this folder, each an edit of the port's text."""

from __future__ import annotations

from benchmarks.by_hand import (
    accumulate_cases,
    batchnorm_cases,
    distilled_cases,
    masked_cases,
    sampled_cases,
    segmented_cases,
    two_models_cases,
)
from benchmarks.by_hand.case import Case

CASES: dict[str, list[Case]] = {
    "accumulate": accumulate_cases.CASES,
    "batchnorm": batchnorm_cases.CASES,
    "distilled": distilled_cases.CASES,
    "masked": masked_cases.CASES,
    "sampled": sampled_cases.CASES,
    "segmented": segmented_cases.CASES,
    "two_models": two_models_cases.CASES,
}
