"""Values that a rank of a script with ddpify's runtime reads although it holds a part of them.

Of such a script it is known which batches are split, and so which values are this rank's alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Fix
from ddpify.lint.scripts.repairs import runtime
from ddpify.records import record
from ddpify.understanding import uses
from ddpify.understanding.facts import Demand, Site
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout
from ddpify.understanding.libraries.runtime_names import REDUCTIONS
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.locations import Location

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control
    from ddpify.lint.scripts.sharded_values import Reading

_UNSEEN = (uses.UNREADABLE_CODE, uses.A_DRAW, uses.A_KEPT_TENSOR)
_TOTALS = (uses.A_TOTAL, uses.A_KEPT_COLLECTION)
_REMEDIES = {
    Placement.MEAN: "mean",
    Placement.WEIGHTED: "mean",
    Placement.SUM: "sum",
    Placement.COUNT: "global_batch_size",
    Placement.PER_COUNT: "sum",
}


@record
class Part:
    """A place of this file that reads a part, and the runtime's function that makes it global."""

    node: cst.BaseExpression
    demand: Demand
    remedy: str

    @property
    def is_loss(self) -> bool:
        """Whether gradients are asked of it."""
        return self.demand.reader == uses.BACKWARD


def parts(script: Reading) -> list[Part]:
    """What a script with the runtime reads in part, each place once; nothing of another script."""
    if not script.has_runtime:
        return []
    replicated = _made_replicated(script)
    found: dict[cst.CSTNode, Part] = {}
    for demand in script.facts.demands.values():
        node = _place(script, demand)
        remedy = _remedy(demand, strict=script.strict)
        if node is None or remedy is None or _is_reduced_later(script, demand, replicated):
            continue
        found.setdefault(node, Part(node, demand, remedy))
    order = script.structure.order
    return sorted(found.values(), key=lambda part: order.get(part.node, 0))


def _remedy(demand: Demand, *, strict: bool) -> str | None:
    """What would correct a read; None where it is not known to do harm.

    What comes out of code that cannot be read may have been reduced in there.
    """
    data, reader = demand.data, demand.reader
    if reader in _UNSEEN:
        return None
    if data.placement in _REMEDIES:
        return _REMEDIES[data.placement]
    if data.placement is Placement.SHARD and data.opaque:
        return "mean" if strict and reader in (uses.BACKWARD, uses.ITEM) else None
    rows = data.placement is Placement.SHARD and data.form in (Layout.TENSOR, *SEVERAL_TENSORS)
    return "gather" if rows and reader in _TOTALS else None


def _place(script: Reading, demand: Demand) -> cst.BaseExpression | None:
    """The reading itself, or the call in this file that leads to it."""
    if demand.site.module is script.module:
        return demand.site.node  # type: ignore[return-value]
    calls = reversed(demand.calls)
    site: Site | None = next((c for c in calls if c.module is script.module), None)
    return site.node if site is not None else None  # type: ignore[return-value]


def _made_replicated(script: Reading) -> set[Location]:
    """The slots that a reduction reads, anywhere."""
    return {
        location
        for call in script.calls(*REDUCTIONS, everywhere=True)
        for given in call.args
        for location in script.flow.locations(given.value, script.owners[call])
    }


def _is_reduced_later(script: Reading, demand: Demand, replicated: set[Location]) -> bool:
    """Whether what is made of a value goes into a reduction: a total that is reduced at the end."""
    node = demand.site.node
    structure = script.structure_of(node)
    starts: set[Location] = set()
    for above in (node, *structure.up(node)):
        if isinstance(above, cst.Call) and script.names(above.func) & REDUCTIONS:
            return True
        starts |= {location for edge in script.flow.edges_at(above) for location in edge.targets}
        if isinstance(above, cst.BaseStatement):
            break
    return bool(script.flow.derived(starts) & replicated)


def reduce_part(control: Control, part: Part) -> Fix | None:
    """The runtime's function around a value, where it gets its name or else where it is read."""
    script = control.script
    dd = runtime(script)
    definition_sites = [
        one for one in part.demand.data.definition_sites if script.owners.get(one) is script.module
    ]
    named = len(definition_sites) == 1 and part.demand.data.placement is not Placement.COUNT
    node = definition_sites[0] if named else part.node
    if dd is None or part.demand.site.module is not script.module:
        return None
    if control.rank_guards(node):
        return None  # the other ranks would not take part
    text = f"{dd}.{part.remedy}({code_of(node)})"
    return script.replace(node, text, f"{dd}.{part.remedy}() over the ranks", Applicability.UNSAFE)
