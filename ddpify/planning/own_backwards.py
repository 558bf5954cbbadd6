"""Tensors that a backward of the script's own writes by index: each rank, by its own samples."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Facts
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import UNKNOWN, Class, Lib

_FUNCTIONS = ("torch.autograd.Function", "torch.autograd.function.Function")
_WRITING = frozenset("index_copy_ index_add_ index_put_ index_fill_ scatter_ scatter_add_".split())


def written(facts: Facts, project: Project) -> Iterator[Refusal]:
    """The writes, in a backward of the script's own, to what its forward was given."""
    for module in project.files:
        for made in module.structure.all(cst.ClassDef):
            if not _is_function(facts, made):
                continue
            for one in module.structure.inside(made.body, cst.FunctionDef):
                if one.name.value == "backward":
                    yield from _writes(module, one)


def _is_function(facts: Facts, made: cst.ClassDef) -> bool:
    held = (a for base in made.bases for a in facts.values.get(base.value, UNKNOWN).atoms)
    return any(
        (isinstance(a, Lib) and a.name in _FUNCTIONS)
        or (isinstance(a, Class) and any(name in _FUNCTIONS for name in a.library_bases()))
        for a in held
    )


def _writes(module: ModuleFile, backward: cst.FunctionDef) -> Iterator[Refusal]:
    saved = set(_saved_names(backward))
    for node in walk(backward.body):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            owner = dotted(node.func.value) or ""
            if node.func.attr.value in _WRITING and owner.split(".")[0] in saved:
                yield Refusal(
                    module,
                    node,
                    "this backward keeps what it makes of a rank's own samples: ranks would come to"
                    " hold different tensors",
                    "write it in the training step, by the labels or positions of the samples",
                )


def _saved_names(backward: cst.FunctionDef) -> Iterator[str]:
    """The names that a backward gives to what its forward has saved."""
    for node in walk(backward.body):
        if not isinstance(node, cst.Assign):
            continue
        value = node.value
        if isinstance(value, cst.Attribute) and value.attr.value == "saved_tensors":
            for target in (one.target for one in node.targets):
                elements = target.elements if isinstance(target, cst.Tuple) else ()
                yield from (e.value.value for e in elements if isinstance(e.value, cst.Name))
