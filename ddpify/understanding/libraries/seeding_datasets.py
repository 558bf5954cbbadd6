"""Data sets that seed the global generators for each sample, as ``torch.manual_seed(index)`` does.

Fetched in the main process, the last sample of a batch so decides what the script draws next: the
order of the next epoch, or noise. A seed that is itself drawn decides nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.batching.stateful_datasets import reached_methods
from ddpify.understanding.facts import Facts, Site
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.libraries.entropy import SEEDS
from ddpify.understanding.structure import walk
from ddpify.understanding.values import UNKNOWN, Class, Instance

_DRAWING = ("numpy.random.", "random.", "torch.rand", "torch.initial_seed", "torch.seed")


def leaves_seeds(facts: Facts, loader: Instance) -> bool:
    """Whether a loader's data set may seed, for a sample, what the script draws from."""
    calls = (site for name in SEEDS for site in facts.library_calls.get(name, {}).values())
    seeding = [site for site in calls if not _is_drawn(facts, site)]
    kinds = [getattr(a, "type", None) for a in loader.arguments.get("dataset", UNKNOWN).atoms]
    known = [kind for kind in kinds if isinstance(kind, Class)]
    if known and len(known) == len(kinds):
        read = {node for kind in known for node in _read_for_a_sample(kind)}
        return any(site.node in read for site in seeding)
    return any(_is_for_a_sample(site) for site in seeding)


def _read_for_a_sample(kind: Class) -> Iterator[cst.CSTNode]:
    for function in reached_methods(kind, "__getitem__"):
        yield from walk(function.node.body)


def _is_for_a_sample(site: Site) -> bool:
    function = site.module.structure.function(site.node)
    return function is not None and function.name.value == "__getitem__"


def _is_drawn(facts: Facts, site: Site) -> bool:
    """Whether the seed comes out of a generator, in the function where it is given."""
    function = site.module.structure.function(site.node)
    if not isinstance(site.node, cst.Call) or function is None:
        return True
    names = {node.value for node in walk(site.node) if isinstance(node, cst.Name)}
    made = [node for node in walk(function.body) if isinstance(node, cst.Assign)]
    sources = [one.value for one in made if _binds(one, names)]
    return any(_draws(facts, source) for source in (*site.node.args, *sources))


def _binds(statement: cst.Assign, names: set[str]) -> bool:
    targets = [one.target for one in statement.targets]
    return any(isinstance(one, cst.Name) and one.value in names for one in targets)


def _draws(facts: Facts, source: cst.CSTNode) -> bool:
    calls = (node for node in walk(source) if isinstance(node, cst.Call))
    return any(
        name.startswith(_DRAWING)
        for call in calls
        for name in library_names(facts.values.get(call.func))
    )
