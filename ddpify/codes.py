"""The codes of all rules, in one table: codes are never changed and never used twice.

A rule's file is called as the rule, with underscores. It lies in the folder of ``lint/rules/`` that
the first character of its number names.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    # the engine's own
    "DDP000": "syntax-error",
    "DDP001": "unused-suppression",
    "DDP002": "not-converted",
    "DDP003": "conversion-step",
    "DDP004": "analysis-cut-short",
    # data
    "DDP101": "missing-distributed-sampler",
    "DDP102": "missing-set-epoch",
    "DDP103": "sampler-with-shuffle",
    "DDP104": "sampler-rank-not-global",
    "DDP105": "iterable-dataset-not-sharded",
    "DDP106": "manual-batches-same-on-all-ranks",
    "DDP107": "per-rank-dataset-split",
    "DDP108": "rank-dependent-dataset",
    "DDP109": "custom-sampler-lost-or-unsharded",
    "DDP110": "global-batch-changed",
    "DDP111": "len-dataset-as-local-denominator",
    "DDP112": "eval-sampler-pads",
    "DDP113": "train-sampler-shuffle-changed",
    "DDP114": "uneven-steps-per-rank",
    "DDP115": "last-batch-of-one",
    "DDP116": "unordered-iteration-defines-state",
    "DDP117": "download-on-all-ranks",
    "DDP118": "endless-iterator-without-epochs",
    # device
    "DDP201": "hard-coded-device",
    "DDP202": "cuda-before-set-device",
    "DDP203": "global-rank-as-device",
    "DDP204": "cuda-visible-devices-in-script",
    "DDP205": "load-without-map-location",
    "DDP206": "loss-tensor-not-on-device",
    "DDP207": "partially-moved-model",
    "DDP208": "input-not-moved",
    "DDP209": "bad-device-ids",
    "DDP210": "collective-on-wrong-tensor",
    # model wrapping
    "DDP301": "data-parallel",
    "DDP302": "moved-or-cast-after-wrap",
    "DDP303": "forward-bypass",
    "DDP304": "stale-unwrapped-reference",
    "DDP305": "parameters-outside-ddp",
    "DDP306": "requires-grad-changed-after-wrap",
    "DDP307": "module-mutated-after-wrap",
    "DDP308": "rank-dependent-state-after-wrap",
    "DDP309": "attribute-on-wrapped",
    "DDP310": "forwards-then-separate-backwards",
    "DDP311": "autograd-grad-on-parameters",
    "DDP312": "batchnorm-not-synced",
    "DDP313": "syncbn-misplaced",
    "DDP314": "buffer-updated-in-forward",
    "DDP315": "random-plain-attribute",
    "DDP316": "unused-parameters",
    "DDP317": "find-unused-without-need",
    "DDP319": "reentrant-checkpoint",
    "DDP320": "rewrapped-per-step",
    "DDP321": "ddp-argument-error",
    "DDP322": "init-sync-disabled",
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
    "DDP411": "gather-without-gradient",
    "DDP412": "batch-coupled-loss",
    "DDP413": "mean-of-means",
    "DDP414": "collective-result-misused",
    "DDP415": "no-sync-misuse",
    "DDP416": "accumulation-window",
    "DDP418": "schedule-length-from-unsharded-loader",
    "DDP419": "read-after-rank0-write",
    "DDP422": "clip-before-unscale-or-in-no-sync",
    "DDP423": "process-group-not-ready",
    # checkpoint
    "DDP501": "write-on-all-ranks",
    "DDP502": "local-rank-guarded-write",
    "DDP503": "wrapped-state-dict-saved",
    "DDP505": "whole-module-pickled",
    "DDP506": "makedirs-race",
    "DDP507": "per-rank-run-directory",
    "DDP508": "logger-on-all-ranks",
    "DDP512": "interactive-call",
    "DDP601": "same-seed-everywhere",
    "DDP602": "rank-seed-before-shared-randomness",
    # random numbers
    "DDP604": "sampler-seed-per-rank",
    # launch
    "DDP701": "launcher-env-overridden",
    "DDP702": "spawn-under-torchrun",
    "DDP703": "local-rank-argument",
    "DDP704": "backend-device-mismatch",
    "DDP706": "world-size-from-device-count",
    "DDP708": "nccl-env-misnamed",
    "DDP709": "double-init",
    "DDP710": "ranks-started-by-hand",
    "DDP711": "rendezvous-by-hand",
    "DDP712": "rank-is-text",
    "DDP801": "accumulation-without-no-sync",
    "DDP802": "barrier-in-step-loop",
    "DDP804": "workers-per-rank",
    # deprecated
    "DDP901": "cuda-amp",
    "DDP902": "broadcast-buffers",
    "DDP903": "tensor-collective-names",
    "DDP904": "removed-pipeline",
    "DDP905": "distributed-launch",
    "DDP906": "fairscale-apex",
    "DDP907": "removed-names",
    "DDP908": "checkpoint-apis",
    "DDP909": "private-paths",
    # fsdp
    "DDPF01": "optimizer-before-shard",
    "DDPF02": "fsdp1-clip",
    "DDPF03": "sharded-state-dict-on-rank0",
    "DDPF04": "fsdp-unsynchronised-init",
    "DDPF05": "fsdp2-ddp-idioms",
    "DDPF07": "fsdp-fp16-scaler",
    "DDPF09": "wrap-policy-called",
    "DDPF10": "zero-optimizer-state",
}

FOLDERS: dict[str, str] = {
    "0": "conversion",
    "1": "data",
    "2": "devices",
    "3": "models",
    "4": "synchronisation",
    "5": "files",
    "6": "random",
    "7": "launch",
    "8": "speed",
    "9": "deprecated",
    "F": "sharded",
}

BY_NAME: dict[str, str] = {name: code for code, name in CODES.items()}


def module_of(code: str) -> str:
    """The module of a rule, within the package of all rules."""
    return f"{FOLDERS[code[3]]}.{CODES[code].replace('-', '_')}"


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
