"""Models that a library puts on GPUs as ``device_map`` says: on all that it finds, or by hand."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.device_maps import device_map, may_use_gpus
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import UNKNOWN, Instance


def device_maps(plan: Plan) -> Iterator[tuple[Site, cst.Arg]]:
    """The calls that are reached and place a model, each with what it is told."""
    for site in plan.sites(cst.Call):
        assert isinstance(site.node, cst.Call)
        given = device_map(site.node)
        if given is None or site.node.func not in plan.facts.values:
            continue
        if may_use_gpus(plan.facts.values.get(given.value, UNKNOWN)):
            yield site, given


def by_hand(plan: Plan) -> Iterator[Refusal]:
    """Maps that name a place for each of several layers."""
    for site, given in device_maps(plan):
        if _has_several(plan, given.value):
            yield Refusal(
                site.module,
                site.node,
                f"{code_of(given)} spreads the layers of a model over several GPUs of one process",
                "leave device_map out, and convert with --strategy fsdp where one GPU is too small",
            )


def _has_several(plan: Plan, node: cst.BaseExpression) -> bool:
    """Whether a map is written with several entries, also where a name holds it."""
    dicts = [node] if isinstance(node, cst.Dict) else []
    for one in plan.facts.values.get(node, UNKNOWN).atoms:
        if isinstance(one, Instance) and isinstance(one.site, cst.Dict):
            dicts.append(one.site)
    return any(len(one.elements) > 1 for one in dicts)
