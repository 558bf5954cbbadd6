"""What a tensor, an array or a number holds of the rows of a batch, besides its placement."""

from __future__ import annotations

from enum import Enum, IntEnum


class Layout(Enum):
    """How the rows of a batch lie in a value."""

    TENSOR = "tensor"  # the rows one after the other, or what is left of them
    BATCH = "batch"  # a loader's batch of unknown structure
    PART = "part"  # what such a batch holds, as a loop over it gives it
    PIECES = "pieces"  # several tensors with rows of one batch, as those of a split
    SAMPLES = "samples"  # what a collate function gets
    SAMPLE = "sample"  # one of those, of unknown structure
    YIELDED = "yielded"  # what a loader gives, in a known layout
    LISTED = "listed"  # an item for each row, of any kind and size

    MASKED = "masked"  # any number of rows: a mask left them
    RAGGED = "ragged"  # any number of rows: each sample brought several
    SEVERAL = "several"  # one of the several that a sample brings
    STACKED = "stacked"  # the rows of several tensors under each other
    INTERLEAVED = "interleaved"  # several rows for each sample, behind each other
    PAIRS = "pairs"  # rows that were copied for each other
    MIXED = "mixed"  # elements of rows that other rows lie between: gathered before, if at all
    PACKED = "packed"  # laid out so that rows can neither be told apart nor gathered
    STATE = "state"  # a recurrent layer's, with its rows behind a dimension of size one
    STATES = "states"  # of several layers, with the rows behind that of the layers
    ROW = "row"  # a single one

    GATHERED = "gathered"  # rows of all ranks
    SIZED = "sized"  # of as many rows as a whole batch has
    PERMUTATION = "permutation"  # of all rows
    ORDER = "order"  # the one that sorting gives

    __hash__ = object.__hash__  # each is one object, and Enum's own hash is a function in Python


class NumberKind(Enum):
    """What a number says of the rows of a batch."""

    SHAPE = "shape"  # the sizes of a tensor
    NUMBER = "number"  # of rows
    MULTIPLE = "multiple"  # of a number of rows
    ROUNDED = "rounded"  # a part of a number of rows
    TOTAL = "total"  # the number of all rows
    RANGE = "range"  # numbers up to that of the rows, whose sites these are
    COMPUTED = "computed"  # of a range
    POSITION = "position"  # a number that counts a rank's rows, from those sites
    SHIFTED = "shifted"  # computed of such a position: it may count another row
    PLACE = "place"  # a number that counts the rows of all ranks

    __hash__ = object.__hash__


class Column(IntEnum):
    """Whether rows are perhaps a number for each sample, with sizes of one behind their number."""

    NONE = 0
    OF_WIDTH_ONE = 1  # as what made them is one wide: a layer, or a matrix that rows are times
    WRITTEN = 2  # where the code asks for such a size


Form = Layout | NumberKind

# Those that a position or a loop tells apart.
SEVERAL_TENSORS = (Layout.BATCH, Layout.PART, Layout.PIECES)
