"""What a collate function calls with all samples of a batch: the longest of them, or their sum.

A rank's collate function gets the rank's own samples, whose longest is another one. A function that
gets a list with something of each sample, and is not known to treat each alone, makes what a sample
becomes depend on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching import collating, sample_numbers
from ddpify.understanding.forms import Layout
from ddpify.understanding.values import Atom, Data, Instance, Method, QualifiedName, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_LISTS = ("list", "generator")
_EACH_ALONE = frozenset(
    # Python's own, which give the samples one by one, as they are
    "len list tuple zip enumerate range iter next map filter reversed isinstance type id print"
    " chain from_iterable islice deepcopy copy getattr hasattr callable"
    # methods of lists that leave the order, and what is in them, as it is
    " append extend __getitem__ __len__ __iter__"
    # one row for each sample, or several behind one another
    " stack vstack hstack dstack column_stack row_stack cat concat concatenate default_collate"
    " default_convert tensor as_tensor asarray array from_numpy Tensor FloatTensor DoubleTensor"
    " HalfTensor LongTensor IntTensor ShortTensor ByteTensor BoolTensor".split()
)


def note(
    run: RunState,
    node: cst.BaseExpression,
    called: QualifiedName | Method,
    args: Iterable[Value],
    kwargs: Mapping[str, Value],
) -> None:
    """Note that what a collate function's call makes of all samples is of those of a rank."""
    if called.name.rpartition(".")[2] in _EACH_ALONE:
        return
    given = [*args, *kwargs.values(), *collating.spread(run, node)]
    if isinstance(called, Method):
        given.append(called.receiver)
    for row in (row for one in given for atom in one.atoms for row in _listed(atom)):
        for loader in row.loaders:
            run.facts.loading.joint.setdefault(loader, run.site(node))


def _listed(atom: Atom) -> list[Data]:
    """What a list has of each sample; nothing for what is no such list."""
    if isinstance(atom, Data):
        return [collating.one_row(atom)] if atom.form is Layout.SAMPLES else []
    if isinstance(atom, Instance) and (atom.type in _LISTS or atom.kind in _LISTS):
        return sample_numbers.samples_in(atom.elements)
    return []
