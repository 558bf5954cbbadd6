"""What ``chunk``, ``split`` and their like make of the samples of a batch in a forward.

The parts of a rank's own samples are no parts of the whole batch: they are as many, but others. So
the parts are those of all ranks' samples, and lie in a list as those of any list do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, dimensions
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_JOINING = ("torch.cat", "torch.concat", "torch.concatenate", "torch.vstack")


def parts(data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether ``split`` and its like part the samples of one tensor; several may lie in others."""
    return _goes_along(data, rest[1:], kwargs)


def one_by_one(data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether ``unbind`` takes the samples apart."""
    return _goes_along(data, rest, kwargs)


def _goes_along(data: Data, told: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether the dimension that a function is told first, or 0, is that of a tensor's rows."""
    given = kwargs.get("dim") or kwargs.get("axis") or (told[0] if told else None)
    along = 0 if given is None else dimensions.place(given.constant(), data.ndim)
    rows = Layout.GATHERED if data.placement is Placement.REPLICATE else Layout.TENSOR
    return along == data.dim and data.form is rows and not data.opaque


def are_joined(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether the parts are put under each other again at once: ``torch.cat(x.chunk(2))``."""
    above = run.module.parents.get(node)
    call = run.module.parents.get(above) if isinstance(above, cst.Arg) else None
    if not isinstance(call, cst.Call) or len(call.args) > 1:
        return False
    return call.args[0] is above and dotted(call.func) in _JOINING


def each(run: RunState, node: cst.BaseExpression, rows: cst.BaseExpression, data: Data) -> Value:
    """The list of the samples that ``rows`` are: a rank's, or those of all ranks."""
    made = run.instance(node, run.module, "list")
    if data.placement is Placement.REPLICATE:
        made.hold("*", value(data.placed(Placement.REPLICATE)))
        run.of_all_ranks.add(made)
    else:
        made.hold("*", run.iterate(rows, value(data)))
        made.each = True
    return value(made)


def of_all(run: RunState, node: cst.BaseExpression, rows: cst.BaseExpression, data: Data) -> Value:
    """The parts of the samples of all ranks, which ``rows`` are to be gathered for."""
    if run.collating:
        run.mixes(rows, data)
    run.demand(rows, value(data), uses.A_STATISTIC)
    return of_gathered(run, node, data)


def of_gathered(run: RunState, node: cst.BaseExpression, data: Data) -> Value:
    """The parts of samples that are those of all ranks already; so are the numbers of them."""
    if isinstance(node, cst.Call):
        bounds.count_sizes(run, [given.value for given in node.args])
    part = replace(data.placed(Placement.REPLICATE), form=Layout.GATHERED, dim=data.dim, flat=True)
    made = run.instance(node, run.module, "list")
    run.put(made, "*", value(replace(part, ndim=data.ndim)))
    return value(made)
