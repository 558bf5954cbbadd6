"""Tensors, arrays and numbers: what one rank holds of them."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding.forms import Column, Form, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.values.atoms import Atom

if TYPE_CHECKING:
    from ddpify.understanding.values.objects import Instance

NO_ROWS = -99  # the dimension of the rows of a single sample, which has none

# A sum or a mean of rows goes by no order of theirs.
_ORDERED = (Placement.SHARD, Placement.ROWS, Placement.COUPLED)


@record
class Data(Atom):
    """A tensor, an array or a number, with its placement.

    ``loaders`` are the loaders whose batches it comes from. ``definition_sites`` are the
    expressions at which a reduction could be inserted instead of at the use. An ``opaque`` value
    comes out of code that ddpify cannot read: it may be a loss as well as rows. ``names`` are the
    expressions at which its rows last got a name, and could be gathered. ``dim`` is the dimension
    of the batch among ``ndim``, which is 0 where their number is not known: then the last may be
    the batch's where there is ``one_each``, perhaps a single number for a sample. ``found_in`` are
    the masks of whose rows these are the positions. ``flat``: perhaps several for each sample,
    which a view laid out. ``boolean``: surely truth values. ``taken_by`` are the positions, as
    code, of a single sample. ``views`` are the expressions that may have taken it as a view of some
    samples. ``past``: its loader has given another batch since. ``several``: perhaps several rows
    for each sample, one behind the other, or those of several tensors. ``parted``: what masks left
    of several tensors, one after the other, which the parts of ranks put together are not.
    ``segments``: where batches of several loaders lie under each other, the loaders of each.
    ``listed``: a list of Python's, as ``tolist()`` gives it, to which ``+`` adds items.
    ``relative``: where ``ndim`` is not known, what it is counted from, and how many more it is.
    ``column``: perhaps one number for each sample, with dimensions of size one behind the rows.
    ``behind``: the rows, by their expressions, that met what may have more dimensions than they:
    these come in front of theirs.
    """

    # What few tensors of one kind differ in is no part of the hash, which is asked for often.
    placement: Placement
    loaders: frozenset[Instance] = frozenset()
    definition_sites: frozenset[cst.BaseExpression] = frozenset()
    names: frozenset[cst.BaseExpression] = frozenset()
    dim: int = 0
    ndim: int = 0
    opaque: bool = field(default=False, hash=False)
    form: Form = Layout.TENSOR
    # How to compute the denominator of a WEIGHTED mean, as code.
    counted: tuple[str, ...] = field(default=(), hash=False)
    one_each: bool = field(default=False, hash=False)
    found_in: frozenset[cst.BaseExpression] = field(default=frozenset(), hash=False)
    flat: bool = field(default=False, hash=False)
    boolean: bool = field(default=False, hash=False)
    taken_by: frozenset[str] = field(default=frozenset(), hash=False)
    views: frozenset[cst.BaseExpression] = frozenset()
    past: bool = field(default=False, hash=False)
    several: bool = field(default=False, hash=False)
    parted: bool = field(default=False, hash=False)
    segments: tuple[frozenset[Instance], ...] = field(default=(), hash=False)
    listed: bool = field(default=False, hash=False)
    relative: tuple[cst.CSTNode, int] | None = field(default=None, hash=False)
    column: Column = field(default=Column.NONE, hash=False)
    behind: frozenset[cst.BaseExpression] = field(default=frozenset(), hash=False)

    @property
    def ragged(self) -> bool:
        """Whether a rank has any number of rows: a mask left them, or samples brought several."""
        return self.form in (Layout.MASKED, Layout.RAGGED)

    @property
    def is_position(self) -> bool:
        """Whether this is a number that counts a rank's rows, or is computed of one."""
        return self.form in (NumberKind.POSITION, NumberKind.SHIFTED)

    @property
    def is_of_one_sample(self) -> bool:
        """Whether this is one of a rank's rows, or the position of one."""
        return self.is_position or (self.placement is Placement.ROWS and self.form is Layout.ROW)

    @property
    def fixed_places(self) -> frozenset[str]:
        """Of the positions that a sample is taken by, those that are the same in every batch."""
        return frozenset(at for at in self.taken_by if at.removeprefix("-").isdigit())

    @property
    def counting(self) -> frozenset[cst.BaseExpression]:
        """Where a range, or what is computed of one, is told how far it goes; empty for others."""
        return (
            self.definition_sites
            if self.form in (NumberKind.RANGE, NumberKind.COMPUTED)
            else frozenset()
        )

    @property
    def reduced(self) -> bool:
        """Whether this is what a reduction over the ranks gave: a number, and no rows."""
        return self.placement is Placement.REPLICATE and self.form in (
            Layout.TENSOR,
            NumberKind.TOTAL,
        )

    @property
    def _may_be_one_each(self) -> bool:
        """Whether these are rows that may be a single number for each sample."""
        return self.placement is Placement.SHARD and (self.one_each or self.ndim == 1)

    def placed(self, placement: Placement) -> Data:
        """The same data under another placement, as a fresh tensor."""
        return replace(
            self,
            placement=placement,
            definition_sites=frozenset(),
            form=Layout.TENSOR,
            opaque=False,
            ndim=0,
            one_each=placement is Placement.SHARD and self._may_be_one_each,
            boolean=False,
            views=frozenset(),
            parted=self.parted and placement in _ORDERED,
            listed=False,
            relative=None,
            column=Column.NONE,
            behind=self.behind if placement is Placement.SHARD else frozenset(),
        )


@record
class ReplicatedTensor(Atom):
    """A replicated tensor that may be a batch made by hand.

    Its rows would lie along dimension ``dim``, and along ``dim_at_definition`` at the places
    ``definition_sites``,
    where it could be split. ``flat`` marks one whose rows are laid out one after the other, several
    for a sample perhaps; ``mixed`` one that is flattened across them: they cannot be told apart.
    ``stacked`` marks a stack of matrices, ``guessed`` what may be no tensor at all, ``last`` one
    whose last dimension is surely that of the rows.
    """

    dim: int
    dim_at_definition: int
    definition_sites: frozenset[cst.CSTNode] = frozenset()
    flat: bool = False
    flat_at_definition: bool = False
    mixed: bool = False
    stacked: bool = False
    guessed: bool = False
    last: bool = False


def merge_key(one: Data) -> tuple[object, ...]:
    """What two tensors that become one have in common."""
    return (one.placement, one.dim, one.opaque, one.form, one.counted, one.past)


def merged(one: Data, other: Data) -> Data:
    """Two tensors of one kind as one, from wherever either comes."""
    scalar = one.placement in (Placement.MEAN, Placement.SUM)
    # Where one of them could not be reduced, reducing the other would leave half of it to do.
    named = bool(one.definition_sites and other.definition_sites) or not scalar
    return Data(
        one.placement,
        one.loaders | other.loaders,
        one.definition_sites | other.definition_sites if named else frozenset(),
        one.names | other.names,
        one.dim,
        one.ndim if one.ndim == other.ndim else 0,
        one.opaque,
        one.form,
        one.counted,
        one.one_each or other.one_each,
        flat=one.flat or other.flat,
        boolean=one.boolean and other.boolean,
        taken_by=one.taken_by | other.taken_by,
        views=one.views | other.views,
        past=one.past,
        several=one.several or other.several,
        parted=one.parted or other.parted,
        segments=one.segments if one.segments == other.segments else (),
        listed=one.listed or other.listed,
        relative=one.relative if one.relative == other.relative else None,
        column=max(one.column, other.column),
        behind=one.behind | other.behind,
    )


def is_within(one: Data, other: Data) -> bool:
    """Whether merging a tensor of one kind with another gives that other: it is asked so often that
    making the merged one to compare it takes too long.
    """
    if one is other:
        return not one.found_in  # as no merged one has
    named = bool(one.definition_sites and other.definition_sites)
    if named or other.placement not in (Placement.MEAN, Placement.SUM):
        sites = one.definition_sites <= other.definition_sites
    else:
        sites = not other.definition_sites
    return (
        sites
        and one.loaders <= other.loaders
        and one.names <= other.names
        and other.ndim in (one.ndim, 0)
        and not other.found_in
        and one.taken_by <= other.taken_by
        and one.views <= other.views
        and one.behind <= other.behind
        and other.segments in (one.segments, ())
        and (other.relative is None or other.relative == one.relative)
        and _flags_within(one, other)
    )


def _flags_within(one: Data, other: Data) -> bool:
    """The same of what merged tensors are where either is, or where both are."""
    return (
        one.one_each <= other.one_each
        and one.flat <= other.flat
        and one.several <= other.several
        and one.parted <= other.parted
        and one.listed <= other.listed
        and one.column <= other.column
        and one.boolean >= other.boolean
    )
