"""Functions of other packages that treat each sample of a batch alone, by their documentation.

They get tensors whose first dimension is the batch, and give such tensors. What is in no table may
mix samples, and gets those of all ranks.
"""

from __future__ import annotations

from ddpify.understanding.arithmetic.single_samples import LOOP
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Data, Value

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

_TOKENIZERS = "transformers pytorch_transformers pytorch_pretrained_bert".split()


def is_one(name: str) -> bool:
    """Whether a function, by its qualified name, treats each sample alone."""
    return name in _NAMES


def of_sample(kind: str, name: str, args: list[Value]) -> Value | None:
    """What a tokenizer says of the text of one sample; None for other methods, and for others."""
    tokenizer = kind.split(".")[0] in _TOKENIZERS and "Tokenizer" in kind
    if not tokenizer or name != "get_special_tokens_mask" or not args or not args[0].data:
        return None
    text = args[0].data
    if len(text) < len(args[0].atoms) or not all(map(_is_of_a_round, text)):
        return None
    if any(one.data for one in args[1:]):
        return None
    return args[0]  # a list as long as the text


def _is_of_a_round(text: Data) -> bool:
    """Whether this is the sample of a loop's round, and not one at a place of the batch."""
    at = text.taken_by
    return text.placement is Placement.ROWS and bool(at) and all(a.startswith(LOOP) for a in at)
