"""The rules of operators: how a result for all samples follows from results for parts of them."""

from __future__ import annotations

from enum import Enum


class Rule(Enum):
    """How ``op(rows)`` follows from ``op(part)`` of each rank's part of the rows."""

    ELEMENTWISE = "each element by itself: parts of the rows give parts of the result"
    PER_SAMPLE = "each sample by itself, where the first dimension is the batch"
    MIXING = "a row for each sample, which depends on other samples"
    COUPLING = "no row for each sample: a statistic, or a matrix of samples"
    OF_MATRICES = "per sample on three dimensions and more; on two it couples the samples"
    BY_ARGUMENTS = "what it is told decides: a module of the arithmetic reads its arguments"
