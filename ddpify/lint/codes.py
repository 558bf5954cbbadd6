"""The codes of all rules, in one table: codes are never changed and never used twice.

A rule's file in ``rules/`` is called as the rule, with underscores.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "DDP000": "syntax-error",
    "DDP001": "unused-suppression",
    # data
    "DDP101": "missing-distributed-sampler",
    "DDP102": "missing-set-epoch",
    "DDP106": "manual-batches-same-on-all-ranks",
    "DDP107": "per-rank-dataset-split",
    "DDP111": "len-dataset-as-local-denominator",
    # device
    "DDP201": "hard-coded-device",
    "DDP205": "load-without-map-location",
    # model wrapping
    "DDP301": "data-parallel",
    "DDP302": "moved-or-cast-after-wrap",
    "DDP303": "forward-bypass",
    "DDP304": "stale-unwrapped-reference",
    "DDP305": "parameters-outside-ddp",
    "DDP306": "requires-grad-changed-after-wrap",
    "DDP310": "forwards-then-separate-backwards",
    "DDP312": "batchnorm-not-synced",
    # synchronisation
    "DDP401": "collective-under-rank-condition",
    "DDP402": "rank-local-control-flow",
    "DDP403": "rank-zero-forward",
    "DDP405": "unreduced-metric",
    "DDP406": "rank-local-learning-rate",
    "DDP407": "rank-conditional-update",
    "DDP408": "sum-or-token-normalised-loss",
    "DDP418": "schedule-length-from-unsharded-loader",
    # checkpoint
    "DDP501": "write-on-all-ranks",
    # fsdp
    "DDPF01": "optimizer-before-shard",
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
