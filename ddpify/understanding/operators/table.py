"""The operators that are known, each with its rule, by the name that PyTorch or NumPy gives them.

A method that works in place has the rule of the one that does not: ``relu_`` has that of ``relu``.
Operators along a dimension, views, indexing and products have modules of their own in
``ddpify/understanding/arithmetic``, since their rules depend on the arguments.
"""

from __future__ import annotations

from ddpify.understanding.operators.rules import Rule

ELEMENTWISE = frozenset(
    # arithmetic and rounding
    "abs absolute add addcdiv addcmul ceil clamp clamp_max clamp_min clip complex copysign div"
    " divide fix float_power floor floor_divide fmax fmin fmod frac gcd heaviside hypot lcm ldexp"
    " lerp maximum minimum mul multiply nan_to_num neg negative nextafter polar positive pow"
    " reciprocal remainder round rsqrt rsub sgn sign signbit sqrt square sub subtract"
    " true_divide trunc"
    # exponentials, logarithms, angles
    " acos acosh angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2"
    " atanh cos cosh deg2rad exp exp2 expm1 log log10 log1p log2 logaddexp logaddexp2 logit"
    " rad2deg sin sinc sinh tan tanh xlogy"
    # special functions
    " airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erf erfc erfcx erfinv expit"
    " gammaln i0 i0e i1 i1e igamma igammac lgamma log_ndtr modified_bessel_i0 modified_bessel_i1"
    " modified_bessel_k0 modified_bessel_k1 mvlgamma ndtr ndtri polygamma psi"
    " scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 xlog1py zeta"
    # activations
    " celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6"
    " selu sigmoid silu softplus softshrink softsign tanhshrink threshold"
    # comparison, logic, masks
    " bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor eq"
    " ge greater greater_equal gt isclose isfinite isinf isnan isneginf isposinf isreal le less"
    " less_equal logical_and logical_not logical_or logical_xor lt masked_fill ne not_equal where"
    # the same numbers in another type, place or graph
    " bfloat16 bool clone conj conj_physical contiguous cpu detach double float half int long"
    " real resolve_conj resolve_neg short to type_as"
    # NumPy's names
    " around cbrt degrees fabs invert mod power radians rint".split()
)

PER_SAMPLE = frozenset(
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d"
    " adaptive_max_pool2d adaptive_max_pool3d affine_grid avg_pool1d avg_pool2d avg_pool3d baddbmm"
    " bilinear bmm channel_shuffle constant_pad_nd conv1d conv2d conv3d conv_transpose1d"
    " conv_transpose2d conv_transpose3d embedding fft2 fold glu grid_sample group_norm ifft2"
    " instance_norm interpolate layer_norm linear local_response_norm lp_pool1d lp_pool2d"
    " max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d pad pixel_shuffle"
    " pixel_unshuffle prelu rms_norm scaled_dot_product_attention unfold upsample".split()
)

MIXING = frozenset("tril triu fftn ifftn batch_norm".split())

COUPLING = frozenset(
    "addr allclose array_equal batched_nms bincount block_diag cartesian_prod cdist chain_matmul"
    " combinations cond convolve corrcoef correlate cov diag diagflat diagonal dist ediff1d eig"
    " eigh eigvals eigvalsh equal ger gradient histc histogram histogramdd histogram2d inner interp"
    " kron lstsq matrix_norm matrix_rank multi_dot nms outer take pca_lowrank pdist pinv"
    " pinverse polyfit qr lu solve svd svd_lowrank svdvals tensordot trace trapezoid"
    " trapz unique unique_consecutive vander cumulative_trapezoid".split()
)

# On matrices of each sample, three dimensions and more, these treat each sample by itself.
OF_MATRICES = frozenset(
    "cholesky cond det eig eigh eigvals eigvalsh inv inverse logdet lstsq lu lu_factor"
    " matrix_exp matrix_norm matrix_power matrix_rank pinv pinverse qr slogdet solve svd svdvals"
    " tril triu".split()
)

# What these do depends on their arguments, or they make something new: see ``arithmetic``.
BY_ARGUMENTS = frozenset(
    "BoolTensor DoubleTensor FloatTensor IntTensor LongTensor Tensor Variable addmm arange"
    " argwhere array as_tensor asarray astype bernoulli bernoulli_ broadcast_to bucketize byte"
    " char chunk copy copy_ cross cuda data digitize dropout dropout1d dropout2d"
    " dropout3d alpha_dropout feature_alpha_dropout einsum empty empty_like encode expand"
    " expand_as exponential_ fill fill_ flatnonzero flip fliplr flipud from_numpy full full_like"
    " fractional_max_pool2d fractional_max_pool3d gather gumbel_softmax imag index_add"
    " index_copy index_fill index_put index_reduce index_select isin item_ lengths"
    " masked_scatter masked_select matmul mm movedim moveaxis multinomial mv narrow new"
    " new_empty new_full new_ones new_tensor new_zeros nonzero normal_ numpy one_hot ones"
    " ones_like permute pin_memory poisson put put_along_axis rand_like randint_like"
    " randn_like random_ ravel repeat repeat_interleave requires_grad_ reshape_as resize_"
    " resize_as_ retain_grad roll rrelu save scatter scatter_add scatter_reduce searchsorted"
    " select set_ shape share_memory_ squeeze swapaxes swapdims t take_along_axis take_along_dim"
    " tensor tile transpose type renorm unflatten uniform_ unsqueeze view_as view_as_complex"
    " view_as_real zero_ zeros zeros_like grad dot vdot vecdot roi_align roi_pool"
    " ps_roi_align ps_roi_pool box_convert clip_boxes_to_image parallel_apply all_gather norm"
    " det logdet slogdet view reshape flatten T H mT mH adjoint matrix_transpose rollaxis".split()
)


# What treats each sample alone where the batch comes first of so many dimensions. With one less,
# the first is that of the channels of a single sample.
BATCH_FIRST_OF = {
    f"{name}{places}d": places + 2
    for places in (1, 2, 3)
    for name in (
        "conv conv_transpose max_pool avg_pool adaptive_avg_pool adaptive_max_pool lp_pool"
        " fractional_max_pool max_unpool"
    ).split()
} | {
    "bmm": 3, "baddbmm": 3, "group_norm": 2, "instance_norm": 2, "local_response_norm": 2,
    "prelu": 2, "channel_shuffle": 3, "interpolate": 3, "upsample": 3, "grid_sample": 4,
    "affine_grid": 3, "unfold": 1,  # which a tensor's own method does, too
}  # fmt: skip

# What works on so many of the last dimensions: on each sample alone if the batch is before them.
LAST_OF = {
    **dict.fromkeys("scaled_dot_product_attention fft2 ifft2 rfft2 irfft2 fold".split(), 2),
    **dict.fromkeys("pixel_shuffle pixel_unshuffle".split(), 3),
    "linear": 1,
}
# These are told how many: by a shape, or by two numbers for each.
LAST_TOLD = {"layer_norm": 1, "rms_norm": 1, "pad": 2}

_ROWS = {
    **dict.fromkeys(BY_ARGUMENTS, Rule.BY_ARGUMENTS),
    **dict.fromkeys(OF_MATRICES, Rule.OF_MATRICES),
    **dict.fromkeys(COUPLING - OF_MATRICES, Rule.COUPLING),
    **dict.fromkeys(MIXING - OF_MATRICES, Rule.MIXING),
    **dict.fromkeys(PER_SAMPLE, Rule.PER_SAMPLE),
    **dict.fromkeys(ELEMENTWISE, Rule.ELEMENTWISE),
}
# Functions of two tensors that broadcast them against each other.
BROADCASTING = frozenset(
    "cosine_similarity pairwise_distance vecdot cross where maximum minimum max min fmax fmin"
    " logaddexp".split()
)


def rule_of(name: str) -> Rule | None:
    """The rule of an operator by its last name, as ``softplus`` or ``relu_``; None if not known."""
    known = _ROWS.get(name)
    if known is None and name.endswith("_") and not name.startswith("_"):
        return _ROWS.get(name[:-1])
    return known


def broadcasts(name: str) -> bool:
    """Whether a function of several tensors broadcasts them against each other."""
    return name in BROADCASTING or rule_of(name) is Rule.ELEMENTWISE
