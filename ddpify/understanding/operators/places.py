"""Which arguments of operators hold a row for each sample, and which say something of all.

What stands elsewhere, a weight or a table, meets each of the samples: with rows in it, every
sample of the batch meets all others.
"""

from __future__ import annotations

# Of operators that treat each sample alone: how many of the first arguments hold samples.
HOLDING_ROWS: dict[str, int] = {
    "affine_grid": 1,
    "baddbmm": 3,
    "bilinear": 2,
    "bmm": 2,
    "grid_sample": 2,
    "max_unpool1d": 2,
    "max_unpool2d": 2,
    "max_unpool3d": 2,
    "scaled_dot_product_attention": 4,
}
# Where the table stands in which the numbers of the other argument are looked up.
TABLE: dict[str, int] = {"bucketize": 1, "digitize": 1, "isin": 1, "searchsorted": 0}
# What takes all of an index for each of the rows.
WITH_ONE_INDEX = frozenset("index_fill index_add index_copy index_reduce index_select".split())
# What stands for something else in NumPy than in PyTorch, and what it stands for, if for anything.
NUMPYS_OWN: dict[str, str] = {
    "numpy.equal": "eq",
    "numpy.pad": "numpy_pad",
    "numpy.repeat": "repeat_interleave",
    "numpy.sort": "numpy_sort",
    "numpy.select": "numpy_select",
    "numpy.put": "numpy_put",
    "numpy.choose": "numpy_choose",
    "numpy.trace": "numpy_trace",
}
# What changes an array in place in NumPy, at positions that may be those of other samples.
NUMPYS_CHANGES = frozenset(
    f"numpy.{name}" for name in "fill_diagonal place put put_along_axis putmask".split()
)
