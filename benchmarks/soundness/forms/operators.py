"""Uses of operators on rows, as expressions with placeholders.

``{x}`` and ``{y}`` are floats of shape (rows, 4), ``{k}`` are labels of shape (rows,) from 0 to 3,
``{d}`` is a dimension, ``{keep}`` may become ``, keepdim=True``.
"""

from __future__ import annotations

from benchmarks.soundness.forms.pairs import PAIRS
from benchmarks.soundness.forms.reductions import REDUCTIONS
from benchmarks.soundness.forms.reshaped import RESHAPED
from benchmarks.soundness.forms.same_shape import SAME_SHAPE as ALIKE
from benchmarks.soundness.forms.spelling import expanded

DIMENSIONS = ("0", "1", "-1", "-2")
DIMENSIONS_OF_THREE = ("0", "1", "2", "-1", "-2", "-3")

SAME_SHAPE = expanded(ALIKE, DIMENSIONS)
OPERATORS = expanded([*ALIKE, *RESHAPED, *PAIRS, *REDUCTIONS], DIMENSIONS)
OF_THREE = expanded([f for f in (*ALIKE, *REDUCTIONS) if "{d}" in f], DIMENSIONS_OF_THREE)
"""For tensors of shape (rows, 2, 2)."""
