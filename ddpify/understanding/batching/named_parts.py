"""What a dictionary of a batch's tensors gives by names that are not known."""

from __future__ import annotations

from ddpify.records import replace
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout
from ddpify.understanding.values import UNKNOWN, Atom, Data, Instance, Value, join, value


def any_part(given: Value) -> Value:
    """What ``**given`` gives by a name that is not seen."""
    return parts_by_name(given) or given


def parts_by_name(given: Value) -> Value:
    """What any key of a dictionary of a batch's tensors gives; nothing of other dictionaries."""
    return join(*map(_part_by_name, given.atoms))


def _part_by_name(atom: Atom) -> Value:
    if isinstance(atom, Data) and is_batch(atom):
        return value(replace(atom, form=Layout.TENSOR))
    if isinstance(atom, Instance) and atom.type == "dict":
        held = atom.attribute("*") or UNKNOWN
        return held if held.data else UNKNOWN
    return UNKNOWN


def is_batch(atom: Data) -> bool:
    """Whether this may be several tensors, and not the rows of one."""
    return atom.opaque or atom.form in (*SEVERAL_TENSORS, Layout.YIELDED)
