"""What operators that couple samples give: rows or none, and one tensor or several.

An operator that stands in none of these lists may give anything, as far as is known.
"""

from __future__ import annotations

from collections.abc import Container

# Of what couples samples, what surely has a row for each of them all the same.
WITH_ROWS = frozenset("cdist inner tensordot outer ger addr".split())
# What is one number, or as long as something that is no batch, whatever it is given.
WITHOUT_ROWS = frozenset(
    "allclose array_equal batched_nms bincount dist equal histc histogram histogram2d histogramdd"
    " nms pdist polyfit".split()
)
# One number for each matrix: none for each sample where the samples are one matrix.
OF_A_MATRIX = frozenset("cond det logdet matrix_norm matrix_rank slogdet trace".split())

# How many tensors operators give that give a tuple.
SEVERAL = {
    2: "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices"
    " adaptive_max_pool3d_with_indices cholesky_ex divmod eig eigh frexp geqrf histogram"
    " inv_ex ldl_factor lobpcg lu_factor max_pool1d_with_indices max_pool2d_with_indices"
    " max_pool3d_with_indices modf qr slogdet solve_ex triangular_solve",
    3: "ldl_factor_ex lu_factor_ex lu_unpack pca_lowrank svd svd_lowrank",
    4: "lstsq",
}
_RESULTS = {name: count for count, names in SEVERAL.items() for name in names.split()}
# These give one tensor more for each of these options.
OPTIONS = {
    **dict.fromkeys(
        [
            f"{kind}{places}d"
            for kind in ("max_pool", "adaptive_max_pool", "fractional_max_pool")
            for places in (1, 2, 3)
        ],
        ("return_indices",),
    ),
    **dict.fromkeys("gradient histogram2d histogramdd lu".split(), ()),
    "unique": ("return_index", "return_inverse", "return_counts"),
    "unique_consecutive": ("return_inverse", "return_counts"),
}


def how_many(name: str, chosen: Container[str]) -> int:
    """How many tensors an operator gives, with these options chosen: 1 unless it is a tuple."""
    return _RESULTS.get(name, 1) + sum(option in chosen for option in OPTIONS.get(name, ()))


# How tensors among several may be asked for by name.
FIELDS = frozenset(
    "L LD LU P Q R S U V Vh a bin_edges cloned_coefficient eigenvalues eigenvectors exponent"
    " hist indices info inverse logabsdet mantissa max min pivots rank residuals result sign"
    " singular_values solution tau values".split()
)
