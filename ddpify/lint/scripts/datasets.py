"""What loaders read from: their data sets and samplers, and whether those know about ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.object_kinds import BARS
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.values import UNKNOWN, Class, Function, Instance

_ITERABLE = ("IterableDataset", "IterDataPipe")
_SAMPLERS = ("torch.utils.data.Sampler", "torch.utils.data.sampler.Sampler",
             "torch.utils.data.BatchSampler", "torch.utils.data.sampler.BatchSampler")  # fmt: skip
_CHOOSING = tuple(
    f"torch.utils.data.{part}{name}"
    for part in ("", "sampler.")
    for name in ("WeightedRandomSampler", "SubsetRandomSampler")
)
# Words that make it doubtful that all ranks get the same. They only ever silence a rule.
_OF_RANKS = re.compile(r"(?i)(?<![a-z])rank(?![a-z])|world_?size|num_replicas|num_shards")
_GIVING = frozenset("__init__ __new__ __len__ __getitem__ __getitems__ __iter__ __next__".split())
_SHOWING = frozenset({*BARS, "builtins.print"})
_TELLING = frozenset({"info", "debug", "warning", "log"})
# Libraries whose data sets give every process the same samples.
_MADE_BY = ("torch.utils.data.", "torchvision.datasets.", "datasets.")
_SAME_FOR_ALL = ("torch", "torchvision", "torchaudio", "torchtext", "datasets", "builtins", "numpy")


def datasets(loader: Instance) -> list[Instance]:
    """The objects that a loader may read from."""
    held = loader.arguments.get("dataset", UNKNOWN).atoms
    return [atom for atom in held if isinstance(atom, Instance)]


def counted(script: Script, dataset: Instance) -> Iterator[cst.BaseExpression]:
    """What tells how many samples a data set has: what its ``__len__`` reads, and where that is not
    in sight, all that it is made with.
    """
    length = dataset.type.find("__len__") if isinstance(dataset.type, Class) else None
    functions = [one.node for one in length.of(Function)] if length is not None else []
    for one in (node for function in functions for node in script.reached(function)):
        if isinstance(one, (cst.Name, cst.Attribute)):
            yield one
    if not functions and isinstance(dataset.site, cst.Call):
        yield from (one.value for one in dataset.site.args)


def is_iterable(dataset: Instance) -> bool:
    """Whether a data set yields by itself, so that no sampler can split it."""
    return any(name.endswith(_ITERABLE) for name in library_types(dataset))


def is_unseen(dataset: Instance) -> bool:
    """Whether code that ddpify cannot read makes a data set: it may know its rank or split it."""
    if isinstance(dataset.type, Class) or "." not in dataset.type:
        return False
    if dataset.type.split(".")[0] not in _SAME_FOR_ALL:
        return True
    inner = (atom for held in dataset.arguments.values() for atom in held.atoms)
    return dataset.type.startswith("torch.utils.data.") and any(
        isinstance(one, Instance) and is_unseen(one) for one in inner
    )


def may_be_split(script: Script, loader: Instance) -> bool:
    """Whether a loader's data set comes out of code that ddpify cannot read."""
    found = datasets(loader)
    if found:
        return any(map(is_unseen, found))
    call = loader.site
    given = argument(call, "dataset", 0) if isinstance(call, cst.Call) else None
    return given is None or not any(
        name.startswith(_MADE_BY)
        for node in _sources(script, given.value)
        for name in script.names(node)
    )


def _sources(script: Script, node: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """The nodes of an expression, and of all that was assigned to what it reads."""
    locations = {
        one.location for one in script.flow.ancestry(node, script.owners[node]) if one.location
    }
    made = [edge.value for edge in script.flow.edges_into(locations) if edge.value is not None]
    for one in (node, *made):
        yield from walk(one)


def library_types(one: Instance) -> list[str]:
    """The library classes that an object is of."""
    return [*one.type.library_bases()] if isinstance(one.type, Class) else [one.type]


def samplers(loader: Instance) -> list[Instance]:
    """The samplers and batch samplers that a loader is given."""
    return [
        atom
        for name in ("sampler", "batch_sampler")
        for atom in loader.arguments.get(name, UNKNOWN).atoms
        if isinstance(atom, Instance)
    ]


def chooses(sampler: Instance) -> bool:
    """Whether a sampler draws by weights, from a subset or by code of the project."""
    if isinstance(sampler.type, Class):
        return any(name in _SAMPLERS for name in library_types(sampler))
    return sampler.type in _CHOOSING


def knows_its_rank(script: Script, one: Instance) -> bool:
    """Whether what gives samples, what that calls, or what it is made with depends on the rank."""
    kinds = [one.type.node, *_bases(one.type)] if isinstance(one.type, Class) else []
    places = [one.site, *(method for kind in kinds for method in _giving(kind))]
    return any(
        isinstance(node, (cst.Name, cst.Attribute, cst.Call))
        and script.has_rank_number(node)
        and not _is_for_show(script, node)
        for place in places
        for node in script.reached(place)
        if node in script.owners
    )


def _giving(kind: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The methods of a class that make it, and that give its samples."""
    for one in walk(kind):
        if isinstance(one, cst.FunctionDef) and one.name.value in _GIVING:
            yield one


def speaks_of_ranks(script: Script, one: Instance) -> bool:
    """Whether an object's class has a word for a rank: where it comes from may not be seen."""
    kinds = [one.type.node, *_bases(one.type)] if isinstance(one.type, Class) else []
    return any(
        isinstance(node, (cst.Name, cst.Attribute, cst.SimpleString))
        and _OF_RANKS.search(code_of(node))
        and not _is_for_show(script, node)
        for kind in kinds
        for node in walk(kind)
    )


def _is_for_show(script: Script, node: cst.CSTNode) -> bool:
    """Whether a node only decides who prints, or who shows a progress bar, or is what is shown."""
    below = node
    for above in script.structure_of(node).up(node):
        if isinstance(above, cst.Call) and below in above.args:
            names = script.names(above.func)
            if "builtins.print" in names or (names & _SHOWING and below is not above.args[0]):
                return True
        if isinstance(above, cst.If):
            return below is above.test and above.orelse is None and _only_shows(script, above.body)
        if isinstance(above, (cst.BaseSmallStatement, cst.FunctionDef)):
            return False
        below = above
    return False


def _only_shows(script: Script, body: cst.BaseSuite) -> bool:
    """``print(...)``, ``batches = tqdm(batches)``, and nothing else."""
    lines = [one for block in body.body for one in getattr(block, "body", (block,))]
    calls = [getattr(one, "value", None) for one in lines]
    return all(
        isinstance(one, cst.Call)
        and (
            script.names(one.func) & _SHOWING
            or (isinstance(one.func, cst.Attribute) and one.func.attr.value in _TELLING)
        )
        for one in calls
    )


def _bases(kind: Class) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    for base in kind.project_bases():
        found += [base.node, *_bases(base)]
    return found
