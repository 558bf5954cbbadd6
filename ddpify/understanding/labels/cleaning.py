"""Methods that reduce what their object holds over the ranks, such as ``meter.synchronize()``."""

from __future__ import annotations

from collections import defaultdict

import libcst as cst

from ddpify.understanding.labels import origins
from ddpify.understanding.libraries.distributed import REDUCING_NAMES
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, walk

_NOT_SYNCHRONISING = frozenset("forward __init__ __call__ train fit run main step".split())


def reducing_methods(structures: dict[ModuleFile, Structure]) -> dict[str, set[object]]:
    """Methods that run a collective, or call one that does, with their classes."""
    found: dict[str, set[object]] = defaultdict(set)
    for _ in range(2):
        known = set(found)
        for structure in structures.values():
            for function in structure.all(cst.FunctionDef):
                owner = structure.class_of(function)
                if owner is not None and _reduces(function, known):
                    found[function.name.value].add(owner)
    return {name: owners for name, owners in found.items() if name not in _NOT_SYNCHRONISING}


def _reduces(function: cst.FunctionDef, known: set[str]) -> bool:
    """Whether a function's body calls a collective, by name: it may not have been run."""
    for node in walk(function.body):
        if isinstance(node, cst.Call):
            short = origins.name_of(node.func).rsplit(".", 1)[-1]
            if short in REDUCING_NAMES or short in known:
                return True
    return False
