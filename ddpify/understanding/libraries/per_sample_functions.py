"""Functions of other packages that treat each sample of a batch alone, by their documentation.

They get tensors whose first dimension is the batch, and give such tensors. What is in no table may
mix samples, and gets those of all ranks.
"""

from __future__ import annotations

_FUNCTIONS = {
    "flash_attn": "flash_attn_func flash_attn_qkvpacked_func flash_attn_kvpacked_func",
    "flash_attn.flash_attn_interface": (
        "flash_attn_func flash_attn_qkvpacked_func flash_attn_kvpacked_func"
    ),
    "causal_conv1d": "causal_conv1d_fn",
    "mamba_ssm.ops.selective_scan_interface": "selective_scan_fn mamba_inner_fn",
    "pytorch3d.ops": "ball_query knn_points sample_farthest_points",
    "timm.layers": "drop_path",
    "timm.layers.drop": "drop_path",
    "timm.models.layers": "drop_path",
    "torchvision.ops": "deform_conv2d",
}
_NAMES = frozenset(
    f"{package}.{name}" for package, names in _FUNCTIONS.items() for name in names.split()
)


def is_one(name: str) -> bool:
    """Whether a function, by its qualified name, treats each sample alone."""
    return name in _NAMES
