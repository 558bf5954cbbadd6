"""Which random generators a script seeds, and whether all ranks get the same seed."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.records import record
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, parameters
from ddpify.understanding.taint.call_graph import called, passed
from ddpify.understanding.taint.reaching_definitions import reaching_definition
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK, RANDOM

_ALL = ("transformers.set_seed", "lightning.seed_everything", "lightning.pytorch.seed_everything",
        "pytorch_lightning.seed_everything", "accelerate.utils.set_seed",
        "torch_geometric.seed_everything", "monai.utils.set_determinism",
        "timm.utils.random_seed", "timm.utils.random.random_seed")  # fmt: skip
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
    return any(_is_own(script, one.value) for one in seed.args)


def _is_own(script: Script, node: cst.BaseExpression) -> bool:
    """The same of an expression: of a name, what it surely was set to before."""
    module = script.owners[node]
    if isinstance(node, cst.Name):
        edges = script.flow.edges_into(script.control.locations(node))
        last = reaching_definition(script.structure_of(node), node, [e.node for e in edges])
        made = next((edge.value for edge in edges if edge.node is last), None)
        if isinstance(last, cst.Assign) and made is not None and made in script.owners:
            return _is_own(script, made)
    return bool(script.flow.sources(node, module) & (ANY_RANK | {CLOCK, RANDOM}))


@record
class Seeding:
    """A place that seeds generators, itself or by a function of the project."""

    place: cst.Call
    differs: bool  # between ranks


def seedings(script: Script, *families: str) -> list[Seeding]:
    """The seeds of these generators; where a function is given one, the calls that give it."""
    found: list[Seeding] = []
    for seed in seeds(script, *families):
        callers = [*_given_by(script, seed)]
        found += callers or [Seeding(seed, differs(script, seed))]
    return found


def _given_by(script: Script, seed: cst.Call) -> Iterator[Seeding]:
    """The calls of a function that is given its seed, and makes no other of it by the rank."""
    around = script.structure_of(seed).function(seed)
    names = {name for x in seed.args for name in _read_whole(x.value)}
    if around is None or not names & {one.name.value for one in parameters(around)}:
        return
    structure = script.structure_of(seed)
    skip = int(structure.class_of(around) is not None)
    here = _sets_apart(script, seed, names)
    for site in script.control.callers(around):
        if not isinstance(site.node, cst.Call) or around in script.control.spawned:
            continue
        for one in called(script.facts, site.node):
            given = [x.value for x, name in passed(one, skip, site.node) if name in names]
            if one.node is around and given:
                yield Seeding(site.node, here or any(_is_own(script, x) for x in given))


def _read_whole(node: cst.CSTNode) -> Iterator[str]:
    """The names in an expression, without those of which an attribute is read: of ``args.seed`` it
    is known what sets it, whatever else the options hold.
    """
    if isinstance(node, cst.Name):
        yield node.value
    elif not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
        for child in node.children:
            yield from _read_whole(child)


def _sets_apart(script: Script, seed: cst.Call, given: set[str]) -> bool:
    """Whether something of a rank comes to a seed besides what its function is ``given``."""
    apart = ANY_RANK | {CLOCK, RANDOM}
    made: list[cst.BaseExpression] = []
    for node in (inner for one in seed.args for inner in walk(one.value)):
        if isinstance(node, cst.Name) and node.value in given:
            edges = script.flow.edges_into(script.control.locations(node))
            made += [e.value for e in edges if e.value is not None and not e.passes]
        elif isinstance(node, (cst.Name, cst.Attribute, cst.Call)):
            made.append(node)
    return any(one in script.owners and script.labels(one) & apart for one in made)


def agreed(script: Script, *families: str) -> bool:
    """Whether a seed of these generators is the same on all ranks."""
    if script.has_runtime and not seeds(script, *families):
        return True  # it starts with rank 0's random states on all ranks
    return any(not differs(script, one) for one in seeds(script, *families))


def apart(script: Script, *families: str) -> bool:
    """Whether these generators are seeded, and each rank surely has a seed of its own."""
    found = seeds(script, *families)
    return bool(found) and all(differs(script, one) for one in found)
