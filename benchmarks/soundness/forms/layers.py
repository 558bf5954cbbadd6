"""Models around a layer or an idiom: lines of ``__init__`` and the expression of the forward.

``{h}`` are floats of shape (rows, 4), ``{k}`` labels of shape (rows,).
"""

from __future__ import annotations

_CONV = "self.layer = nn.Conv1d(4, 4, 3, padding=1)"
_ATTENTION = "self.layer = nn.MultiheadAttention(4, 2{})"
_BATCH_FIRST = ", batch_first=True"

LAYERS: list[tuple[str, str]] = [
    *(
        (f"self.layer = nn.{name}", "self.layer({h})")
        for name in (
            "BatchNorm1d(4)",
            "BatchNorm1d(4, momentum=None)",
            "BatchNorm1d(4, affine=False)",
            "BatchNorm1d(4, track_running_stats=False)",
            "LayerNorm(4)",
            "GroupNorm(2, 4)",
            "RMSNorm(4)",
            "Softmax(0)",
            "Softmax(1)",
            "Softmax(-2)",
            "Softmax(dim=-1)",
            "LogSoftmax(0)",
            "LogSoftmax(dim=-2)",
            "Softmin(dim=0)",
            "PReLU(4)",
            "GELU()",
            "Hardtanh()",
            "Threshold(0.1, 0.0)",
            "GLU(0)",
            "GLU(-1)",
            "Flatten(0)",
            "Flatten()",
            "Bilinear(4, 4, 4)",
            "Identity()",
            "LSTM(4, 4)",
            "AvgPool1d(3, 1, 1)",
            "MaxPool1d(3, 1, 1)",
            "Conv1d(4, 4, 1)",
            "MultiheadAttention(4, 2)",
            "TransformerEncoderLayer(4, 2, 8, 0.0)",
            "TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)",
            "LocalResponseNorm(2)",
            "ConstantPad1d(1, 0.0)",
            "Upsample(scale_factor=2)",
        )
    ),
    *(
        (layer, f"self.layer({batch})[0]{back}")
        for layer in (
            "self.layer = nn.LSTM(4, 4)",
            "self.layer = nn.LSTM(4, 4, batch_first=True)",
            "self.layer = nn.GRU(4, 4)",
            "self.layer = nn.GRU(4, 4, batch_first=True)",
            "self.layer = nn.RNN(4, 4, batch_first=True)",
            "self.layer = nn.GRU(4, 2, batch_first=True, bidirectional=True)",
        )
        for batch, back in (
            ("{h}", ""),
            ("{h}[None]", "[0]"),
            ("{h}[:, None]", "[:, 0]"),
            ("{h}.unsqueeze(0)", ".squeeze(0)"),
            ("{h}.unsqueeze(1)", ".squeeze(1)"),
            ("{h}[:, None].expand(-1, 3, -1)", ".mean(1)"),
            ("{h}[None].expand(3, -1, -1)", ".mean(0)"),
        )
    ),
    *(
        (_ATTENTION.format(first), f"self.layer({q}, {q}, {q})[0]{back}")
        for first in ("", _BATCH_FIRST)
        for q, back in (
            ("{h}", ""),
            ("{h}[None]", "[0]"),
            ("{h}[:, None]", "[:, 0]"),
            ("{h}[None].expand(3, -1, -1)", ".mean(0)"),
        )
    ),
    *(
        (_CONV, f"self.layer({batch}){back}")
        for batch, back in (
            ("{h}.T", ".T"),
            ("{h}.T[None]", "[0].T"),
            ("{h}[None].transpose(1, 2)", ".transpose(1, 2)[0]"),
            ("{h}[:, :, None]", "[:, :, 0]"),
            ("{h}[..., None].expand(-1, -1, 5)", ".mean(-1)"),
            ("{h}.t().unsqueeze(0)", ".squeeze(0).t()"),
        )
    ),
    *(
        (f"self.layer = nn.{pool}", f"self.layer({batch}){back}")
        for pool in ("AvgPool1d(3, 1, 1)", "MaxPool1d(3, 1, 1)", "BatchNorm1d(4)", "Softmax(1)")
        for batch, back in (("{h}.T[None]", "[0].T"), ("{h}[:, :, None]", "[:, :, 0]"))
    ),
    ("self.layer = nn.AdaptiveAvgPool1d(1)", "{h} + self.layer({h}.T).T"),
    ("self.layer = nn.AdaptiveMaxPool1d(2)", "{h} * self.layer({h}).sum(1, keepdim=True)"),
    ("self.layer = nn.CosineSimilarity(dim=0)", "{h} * self.layer({h}, torch.tanh({h}))"),
    ("self.layer = nn.CosineSimilarity()", "{h} * self.layer({h}, {h}[:1])[:, None]"),
    ("self.layer = nn.PairwiseDistance()", "{h} * self.layer({h}, {h}.flip(0))[:, None]"),
    ("self.layer = nn.InstanceNorm1d(4)", "self.layer({h}[:, :, None].expand(-1, -1, 3)).mean(2)"),
    (
        "self.layer = nn.InstanceNorm1d(1, track_running_stats=True)",
        "self.layer({h}[:, None])[:, 0]",
    ),
    ("self.layer = nn.BatchNorm2d(2)", "self.layer({h}.view(-1, 2, 2, 1)).flatten(1)"),
    ("self.layer = nn.Conv2d(1, 1, 3, padding=1)", "self.layer({h}.view(-1, 1, 2, 2)).flatten(1)"),
    ("self.layer = nn.Conv2d(1, 1, 3, padding=1)", "self.layer({h}[None, None])[0, 0]"),
    ("self.layer = nn.Unflatten(0, (-1, 1))", "self.layer({h})[:, 0]"),
    ("self.layer = nn.Embedding(4, 4)", "{h} + self.layer({k})"),
    ("self.layer = nn.Embedding(4, 4, max_norm=0.5)", "{h} + self.layer({k})"),
    ("self.layer = nn.Embedding(4, 4, scale_grad_by_freq=True)", "{h} + self.layer({k})"),
    ("self.layer = nn.Embedding(4, 4, padding_idx=0)", "{h} + self.layer({k})"),
    ("self.layer = nn.Embedding(4, 4, sparse=True)", "{h} + self.layer({k})"),
    ("self.layer = nn.EmbeddingBag(4, 4)", "{h} + self.layer({k}[:, None])"),
    ("self.layer = nn.EmbeddingBag(4, 4, mode='sum')", "{h} + self.layer({k}[:, None])"),
    ("self.layer = nn.EmbeddingBag(4, 4)", "{h} + self.layer({k}, torch.arange(len({k})))"),
    ("self.layer = nn.EmbeddingBag(4, 4)", "{h} + self.layer({k}, torch.tensor([0]))"),
    ("self.layer = nn.EmbeddingBag(4, 4, max_norm=0.5)", "{h} + self.layer({k}[:, None])"),
    ("self.layer = nn.Parameter(torch.ones(4))", "{h} * self.layer"),
    ("self.layer = nn.Parameter(torch.ones(4, 4))", "{h} * self.layer[{k}]"),
    ("self.layer = nn.Parameter(torch.ones(2, 4))", "{h} * self.layer[: len({h})].sum(0)"),
    ("self.register_buffer('seen', torch.zeros(4))", "{h} + self.seen.add_({h}.detach().sum(0))"),
    ("self.register_buffer('seen', torch.zeros(()))", "{h} / self.seen.add_(len({h}))"),
    (
        "self.register_buffer('mean', torch.zeros(4))",
        "{h} - self.mean.mul_(0.9).add_(0.1 * {h}.detach().mean(0))",
    ),
    (
        "self.register_buffer('queue', torch.ones(8, 4))",
        "{h} + ({h} @ self.queue.T).softmax(1) @ self.queue",
    ),
    ("self.layer = nn.LSTMCell(4, 4)", "self.layer({h})[0]"),
    ("self.layer = nn.GRUCell(4, 4)", "self.layer({h}, torch.zeros(len({h}), 4))"),
    (
        "self.layer = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Softmax(0))",
        "self.layer({h})",
    ),
    (
        "self.layer = nn.ModuleList([nn.Linear(4, 4), nn.Softmax(-2)])",
        "self.layer[1](self.layer[0]({h}))",
    ),
    ("self.layer = nn.Linear(4, 4)", "torch.stack([self.layer(row) for row in {h}])"),
    ("self.layer = nn.Linear(4, 4)", "self.layer({h}.sort(0).values)"),
    ("self.layer = nn.Linear(4, 1)", "(self.layer({h}).softmax(0) * {h})"),
    ("self.layer = nn.Linear(4, 1)", "{h} + (self.layer({h}).softmax(0) * {h}).sum(0)"),
    ("self.layer = nn.Linear(4, 1)", "{h} + self.layer({h}).sigmoid().T @ {h}"),
    ("self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))", "self.layer({h})"),
    ("self.layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))", "self.layer({h})"),
    ("self.layer = nn.utils.spectral_norm(nn.Linear(4, 4))", "self.layer({h})"),
    ("self.layer = nn.Dropout(0.5)", "self.layer({h})"),
    ("self.layer = nn.Transformer(4, 2, 1, 1, 8, 0.0)", "self.layer({h}[None], {h}[None])[0]"),
    ("self.layer = nn.Hardswish()", "self.layer({h} - {h}.mean(0))"),
    ("self.layer = nn.LazyLinear(4)", "self.layer({h})"),
]
