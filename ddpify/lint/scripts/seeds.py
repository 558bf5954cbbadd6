"""Which random generators a script seeds, and whether all ranks get the same seed."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK, RANDOM

_ALL = ("transformers.set_seed", "lightning.seed_everything", "lightning.pytorch.seed_everything",
        "pytorch_lightning.seed_everything", "accelerate.utils.set_seed",
        "torch_geometric.seed_everything", "monai.utils.set_determinism")  # fmt: skip
SEEDS = {
    "torch": ("torch.manual_seed", "torch.random.manual_seed"),
    "cuda": ("torch.cuda.manual_seed", "torch.cuda.manual_seed_all"),
    "numpy": ("numpy.random.seed",),
    "random": ("random.seed",),
}
_FAMILIES = {"sklearn": "numpy", "numpy": "numpy", "random": "random", "torch": "torch"}


def family(name: str) -> str:
    """The generator that a library function draws from: "torch", "numpy" or "random"."""
    return _FAMILIES.get(name.split(".")[0], "torch")


def seeds(script: Script, *families: str) -> list[cst.Call]:
    """The calls, in any file, that seed these generators; all of them where none is named."""
    names = [name for one in families or SEEDS for name in SEEDS[one]]
    return script.calls(*names, *_ALL, everywhere=True)


def may_be_seeded(script: Script, *families: str) -> bool:
    """Whether these generators are seeded, or a function that is not seen may do it."""
    return bool(seeds(script, *families)) or any(
        "seed" in code_of(call.func).lower() and not _is_seen(script, call)
        for structure in script.structures.values()
        for call in structure.all(cst.Call)
    )


def _is_seen(script: Script, call: cst.Call) -> bool:
    """Whether a call is one of the project, of a generator's own library, or a method."""
    names = script.names(call.func)
    if not names and not isinstance(call.func, cst.Name):
        return True
    return any(True for _ in called(script.facts, call)) or any(
        name.split(".")[0] in _FAMILIES for name in names
    )


def differs(script: Script, seed: cst.Call) -> bool:
    """Whether a seed is made from the rank, from the clock, or drawn by each process."""
    module = script.owners[seed]
    apart = ANY_RANK | {CLOCK, RANDOM}
    return any(script.flow.sources(one.value, module) & apart for one in seed.args)


def agreed(script: Script, *families: str) -> bool:
    """Whether a seed of these generators is the same on all ranks."""
    if script.has_runtime and not seeds(script, *families):
        return True  # it starts with rank 0's random states on all ranks
    return any(not differs(script, one) for one in seeds(script, *families))


def apart(script: Script, *families: str) -> bool:
    """Whether these generators are seeded, and each rank surely has a seed of its own."""
    found = seeds(script, *families)
    return bool(found) and all(differs(script, one) for one in found)
