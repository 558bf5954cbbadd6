"""What loaders read from: their data sets and samplers, and whether those know about ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.unread import (
    is_for_show,
    is_kept_unread,
    names_an_argument,
    unread_arguments,
)
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.taint.sources import WORLD
from ddpify.understanding.values import UNKNOWN, Class, Const, Function, Instance, QualifiedName

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
    unread = {inner for given in unread_arguments(script, one) for inner in walk(given)}
    return any(
        isinstance(node, (cst.Name, cst.Attribute, cst.Call))
        and script.has_own_number(node)
        and node not in unread
        and not (names_an_argument(script, node) or is_kept_unread(script, node))
        and not is_for_show(script, node)
        for place in places
        for node in script.reached(place)
        if node in script.owners and node is not one.site
    )


def _giving(kind: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The methods of a class that make it, and that give its samples."""
    for one in walk(kind):
        if isinstance(one, cst.FunctionDef) and one.name.value in _GIVING:
            yield one


def speaks_of_ranks(script: Script, one: Instance) -> bool:
    """Whether an object's class has a word for a rank: where it comes from may not be seen."""
    kinds = [one.type.node, *_bases(one.type)] if isinstance(one.type, Class) else []
    unread = {*unread_arguments(script, one)}
    given = one.site.args if kinds and isinstance(one.site, cst.Call) else ()
    return any(
        isinstance(node, (cst.Name, cst.Attribute, cst.SimpleString))
        and _OF_RANKS.search(code_of(node))
        and not (_is_written(script, node) or is_kept_unread(script, node))
        and not is_for_show(script, node)
        for place in (*kinds, *(one.value for one in given if one.value not in unread))
        for node in walk(place)
    )


def _is_written(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a number is the same for all ranks, as a default that nothing replaces and how many
    ranks there are; or whether its name is only declared there.
    """
    above = script.structure_of(node).parents.get(node)
    if names_an_argument(script, node) or (isinstance(above, cst.Attribute) and above.attr is node):
        return True
    labels = script.labels(node)
    held = script.value(node).atoms
    written = held and all(isinstance(x, (Const, QualifiedName)) for x in held)
    if isinstance(node, cst.SimpleString):
        return False  # the name of an entry, whose value is not seen
    return labels == {WORLD} or bool(written and not labels)


def _bases(kind: Class) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    for base in kind.project_bases():
        found += [base.node, *_bases(base)]
    return found
