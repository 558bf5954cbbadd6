"""The codes of all rules, in one table: codes are never changed and never used twice.

A rule's file in ``rules/`` is called as the rule, with underscores.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    # the engine's own
    "DDP000": "syntax-error",
    "DDP001": "unused-suppression",
    "DDP002": "not-converted",
    # data
    "DDP101": "missing-distributed-sampler",
    "DDP102": "missing-set-epoch",
    "DDP103": "sampler-with-shuffle",
    "DDP104": "sampler-rank-not-global",
    "DDP106": "manual-batches-same-on-all-ranks",
    "DDP107": "per-rank-dataset-split",
    "DDP110": "global-batch-changed",
    "DDP111": "len-dataset-as-local-denominator",
    "DDP116": "unordered-iteration-defines-state",
    "DDP117": "download-on-all-ranks",
    # device
    "DDP201": "hard-coded-device",
    "DDP203": "global-rank-as-device",
    "DDP204": "cuda-visible-devices-in-script",
    "DDP205": "load-without-map-location",
    "DDP209": "bad-device-ids",
    # model wrapping
    "DDP301": "data-parallel",
    "DDP302": "moved-or-cast-after-wrap",
    "DDP303": "forward-bypass",
    "DDP304": "stale-unwrapped-reference",
    "DDP305": "parameters-outside-ddp",
    "DDP306": "requires-grad-changed-after-wrap",
    "DDP310": "forwards-then-separate-backwards",
    "DDP312": "batchnorm-not-synced",
    "DDP313": "syncbn-misplaced",
    "DDP321": "ddp-argument-error",
    # synchronisation
    "DDP401": "collective-under-rank-condition",
    "DDP402": "rank-local-control-flow",
    "DDP403": "rank-zero-forward",
    "DDP404": "exception-swallowed-around-step",
    "DDP405": "unreduced-metric",
    "DDP406": "rank-local-learning-rate",
    "DDP407": "rank-conditional-update",
    "DDP408": "sum-or-token-normalised-loss",
    "DDP409": "double-averaging",
    "DDP410": "reduced-loss-backward",
    "DDP414": "collective-result-misused",
    "DDP418": "schedule-length-from-unsharded-loader",
    # checkpoint
    "DDP501": "write-on-all-ranks",
    "DDP502": "local-rank-guarded-write",
    "DDP503": "wrapped-state-dict-saved",
    "DDP506": "makedirs-race",
    "DDP508": "logger-on-all-ranks",
    # random numbers
    "DDP604": "sampler-seed-per-rank",
    # launch
    "DDP701": "launcher-env-overridden",
    "DDP703": "local-rank-argument",
    "DDP708": "nccl-env-misnamed",
    # deprecated
    "DDP901": "cuda-amp",
    "DDP905": "distributed-launch",
    "DDP907": "removed-names",
    # fsdp
    "DDPF01": "optimizer-before-shard",
    "DDPF02": "fsdp1-clip",
}

BY_NAME: dict[str, str] = {name: code for code, name in CODES.items()}


def code_of(text: str) -> str | None:
    """The code that a code or a name stands for; None for neither."""
    text = text.strip()
    upper = text.upper()
    if upper in CODES:
        return upper
    return BY_NAME.get(text.lower().replace("_", "-"))


def select(selector: str) -> set[str]:
    """The codes that a selector means: ``ALL``, a code, a prefix of codes, or a name.

    Raises:
        KeyError: No rule is meant.
    """
    if selector.upper() == "ALL":
        return set(CODES)
    exact = code_of(selector)
    if exact is not None:
        return {exact}
    found = {code for code in CODES if selector and code.startswith(selector.strip().upper())}
    if not found:
        raise KeyError(selector)
    return found
