"""Where functions that do something along one dimension are told which one.

PyTorch's schemas give the places; a test compares this table with them.
"""

from __future__ import annotations

# The place of ``dim`` among the arguments after the tensor, and its default.
ALONG: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(
        "gather index_add index_copy index_fill index_reduce index_select narrow scatter"
        " scatter_add scatter_reduce select unflatten unfold".split(),
        (0, None),
    ),
    "glu": (0, -1),
    "cross": (1, None),
    "put_along_axis": (2, None),
    "select_scatter": (1, None),
    "slice_scatter": (1, 0),
    "take_along_axis": (1, None),
    "take_along_dim": (1, None),
    "vecdot": (1, -1),
}
# What these give has no row for each sample where they go along the samples.
REDUCING = frozenset("glu narrow select unflatten unfold vecdot".split())
# Of these, what is left may have as many rows as one of several tensors that were joined.
REARRANGING = frozenset("glu unflatten unfold".split())
# What these give is as large as their index.
PICKING = frozenset("gather index_select take_along_axis take_along_dim".split())
