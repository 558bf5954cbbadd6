"""The names of ddpify's own runtime, by which a script that uses it is known."""

from __future__ import annotations

from ddpify.understanding.libraries.frameworks import imported_names

MODULE, VENDORED = "ddpify.runtime", "ddpify_runtime"
SPREAD_CALL = f"{MODULE}.spread()"  # what calling ``spread(model)`` calls
INIT, WRAP, SAVE = f"{MODULE}.init", f"{MODULE}.wrap", f"{MODULE}.save"
MEAN, SUM = f"{MODULE}.mean", f"{MODULE}.sum"
REPLICATE, SPLIT = f"{MODULE}.replicate", f"{MODULE}.split"
SHARD_BATCH = f"{MODULE}.shard_batch"
BROADCAST = f"{MODULE}.broadcast"
MAIN_SAVES, MAIN_WRITES = f"{MODULE}.main_saves", f"{MODULE}.main_writes"
LOCAL_MAIN_FIRST = f"{MODULE}.local_main_first"
ALL_REPLICATED = f"{MODULE}.replicated"  # a block in which every rank holds all rows
SHARDED, REPLICATING = "sharded", "whole"  # how a loader is shared


def _named(names: str) -> frozenset[str]:
    return frozenset(f"{MODULE}.{name}" for name in names.split())


# What the vendored file says of itself in its first lines.
WRITTEN = "Written by `ddpify convert --vendor`"

# What makes the value over all ranks of a value of this rank's part.
REDUCTIONS = _named("mean sum gather gather_ragged")
# What all ranks call together.
COLLECTIVES = REDUCTIONS | {SPREAD_CALL} | _named(
    "full_tensor barrier wrap save local_main_first main_writes save_sharded load_sharded snapshot"
    " pad_packed_sequence broadcast"
)  # fmt: skip
# What a script that is to be converted cannot have called already.
TRAINING = _named("init shard replicate shard_batch wrap resumable")
# What raises before ``init``.
NEEDS_INIT = _named("rank local_rank world_size is_main device barrier wrap")


def is_runtime(module: str) -> bool:
    """Whether a module is ddpify's own, and not one of the project that has its name."""
    return module.split(".", 1)[0] in ("ddpify", VENDORED)


def is_vendored(text: str) -> bool:
    """Whether a file is the runtime as ``convert --vendor`` writes it, whatever its name."""
    return WRITTEN in text[:400]


def qualified(name: str) -> str:
    """The name of a library's thing; the same one whether the runtime is vendored or not."""
    if name == VENDORED or name.startswith(VENDORED + "."):
        return MODULE + name[len(VENDORED) :]
    return name


def imports_runtime(text: str) -> bool:
    """Whether a file's text imports the runtime."""
    if "ddpify" not in text:
        return False
    names = map(qualified, imported_names(text))
    return any(name == MODULE or name.startswith(MODULE + ".") for name in names)
