"""Random splits of a data set, which all ranks must draw alike."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Fix
from ddpify.lint.scripts.datasets import counted, datasets
from ddpify.lint.scripts.repairs import add_argument, spelled
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import family
from ddpify.records import record
from ddpify.understanding.syntax import argument, spreads
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK
from ddpify.understanding.values import Class

_SPLITS = {
    "torch.utils.data.random_split": ("generator", 2),
    "torch.utils.data.dataset.random_split": ("generator", 2),
    "sklearn.model_selection.train_test_split": ("random_state", None),
}
_SUBSETS = ("torch.utils.data.Subset", "torch.utils.data.dataset.Subset",
            "torch.utils.data.SubsetRandomSampler",
            "torch.utils.data.sampler.SubsetRandomSampler")  # fmt: skip
PERMUTATIONS = ("torch.randperm", "numpy.random.permutation", "random.sample")
_DRAWN = (*PERMUTATIONS, "numpy.random.choice")
_CHANCES = ("random.random", "random.uniform", "numpy.random.rand", "numpy.random.random",
            "numpy.random.uniform", "torch.rand")  # fmt: skip
_OWN = ANY_RANK | {CLOCK}
SHUFFLES = ("random.shuffle", "numpy.random.shuffle")


@record
class Split:
    """A call whose random numbers decide which samples are in which part.

    ``keyword`` is the argument that would fix the numbers, where there is one. ``own`` numbers come
    from a generator or a seed of the rank.
    """

    call: cst.Call
    family: str
    keyword: str | None
    own: bool = False


def splits(script: Script) -> Iterator[Split]:
    """The splits of this file that draw from a generator that the whole process shares."""
    for name, (keyword, position) in _SPLITS.items():
        for call in script.calls(name):
            given = argument(call, keyword, position)
            if given is not None and is_own_generator(script, given.value):
                yield Split(call, family(name), None, own=True)
            elif given is None and not spreads(call) and not _shuffle_is_off(call):
                yield Split(call, family(name), keyword)
    yield from _permutations(script)


def is_own_generator(script: Script, node: cst.BaseExpression) -> bool:
    """``torch.Generator().manual_seed(rank)``, also in two lines, or ``random_state=rank``."""
    module = script.owners.get(node, script.module)
    if script.flow.sources(node, module) & _OWN:
        return True
    made = script.flow.locations(node, module)
    return any(
        isinstance(seed.func, cst.Attribute)
        and bool(script.flow.locations(seed.func.value, script.owners[seed]) & made)
        and any(script.flow.sources(one.value, script.owners[seed]) & _OWN for one in seed.args)
        for seed in script.method_calls("manual_seed", "seed", everywhere=True)
    )


def _shuffle_is_off(call: cst.Call) -> bool:
    given = argument(call, "shuffle")
    return given is not None and isinstance(given.value, cst.Name) and given.value.value == "False"


def _permutations(script: Script) -> Iterator[Split]:
    """Draws that become the indices of a subset."""
    found: dict[cst.Call, Split] = {}
    for subset in script.calls(*_SUBSETS):
        sampler = any(name.endswith("Sampler") for name in script.names(subset.func))
        given = argument(subset, "indices", 0 if sampler else 1)
        if given is None:
            continue
        sources = list(script.flow.ancestry(given.value, script.module))
        locations = {one.location for one in sources if one.location is not None}
        for one in sources:
            if isinstance(one.node, cst.Call) and script.owners.get(one.node) is script.module:
                _add(script, one.node, _DRAWN, found)
        for shuffle in shuffles(script, locations):
            _add(script, shuffle, SHUFFLES, found)
    for call in _deciding(script):
        _add(script, call, (*_DRAWN, *_CHANCES), found)
    yield from found.values()


def shuffles(script: Script, locations: set[Location]) -> Iterator[cst.Call]:
    """What shuffles in place, in this file, what is kept in any of these."""
    for call in script.calls(*SHUFFLES):
        if call.args and script.flow.locations(call.args[0].value, script.module) & locations:
            yield call


def _deciding(script: Script) -> Iterator[cst.Call]:
    """Draws of this file that decide which samples come into the list of a data set.

    ``if path in held: val.append(path) else: train.append(path)``, where ``held`` is drawn.
    """
    order = script.structure.order
    places = (one for one in script.once(_filling) if one in order)
    # Many places stand under the same conditions, and these are made of much of the program.
    tests = [*dict.fromkeys(one.test for at in places for one in script.structure.guards(at))]
    for one in script.flow.ancestry_of(tests, script.module):
        if isinstance(one.node, cst.Call) and one.node in order:
            yield one.node


def _filling(script: Script) -> list[cst.CSTNode]:
    """What puts something into the lists, of any file, whose items data sets count as samples."""
    kept: set[Location] = set()
    for dataset in (one for loader in script.training_loaders for one in datasets(loader)):
        for node in (one for one in counted(script, dataset) if one in script.owners):
            module = script.owners[node]
            if isinstance(dataset.type, Class):
                kept |= script.flow.copied_from([node], module)
            else:
                made = script.flow.ancestry(node, module)
                kept |= {one.location for one in made if one.location is not None}
    moves = (one.node for one in script.flow.edges_into(kept))
    return [*dict.fromkeys(one for one in moves if isinstance(one, (cst.Call, cst.AugAssign)))]


def _add(
    script: Script, call: cst.Call, names: tuple[str, ...], found: dict[cst.Call, Split]
) -> None:
    for name in script.names(call.func):
        if name in names and argument(call, "generator") is None:
            found.setdefault(call, Split(call, family(name), None))


def draw_alike(script: Script, one: Split) -> Fix | None:
    """Give a split numbers of its own, the same on every rank."""
    torch = spelled(script, "torch")
    if one.keyword is None or (one.keyword == "generator" and torch is None):
        return None
    seed = f"{torch}.Generator().manual_seed(0)" if one.keyword == "generator" else "0"
    code = f"{one.keyword}={seed}"
    title = "draw the same split on every rank"
    return add_argument(script, one.call, code, title, Applicability.UNSAFE)
