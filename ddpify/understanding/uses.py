"""The uses that demand a global value, in the words of a report.

A library function that reads a value is named as its call: ``print()``. All other uses, and the
calls on which something is decided, are constants here: decisions compare with these alone.
"""

BACKWARD = "backward()"
ITEM = "item()"
APPEND = "append()"
A_LOSS = "a loss"  # which is computed from it
A_TOTAL = "a running total"
A_COMPARISON = "a comparison"
A_MEMBERSHIP_TEST = "a membership test"
A_FILE = "a file"
AN_OPTIMIZER = "an optimizer"
A_SIZE_FROM_THE_END = "a size that is counted from the end"
UNREADABLE_CODE = "code that ddpify cannot read"
A_CRITERION = "a loss or a metric that ddpify cannot read"

ARITHMETIC = "arithmetic that does not commute with a sum"
POSITIONS = "a computation with positions in the batch"
AN_INDEX = "an index"
A_DRAW = "a random draw"  # for so many rows
PAIRS = "a computation on pairs of samples"  # which couples rows in a model's forward
ONE_PLACEMENT = "a value that is all samples' in another case"  # another branch, call or round
PERHAPS_SAMPLES = "a loop over samples, or over several tensors"  # of unseen code
ALL_ROWS = "a computation on the whole batch"  # which a rank's rows meet there
A_TABLE = "a table or a counter that its samples fill"  # one after another
A_CONDITION = "a condition"
A_KEPT_TENSOR = "a write into a tensor that is kept from batch to batch"
A_KEPT_COLLECTION = "a collection that outlives the batch"
ANOTHER_CALL = "a line that is reduced for another call"
ROWS_OF_ALL = "positions among the rows of all ranks"
A_VIEW = "a view that cuts across the samples"  # as they do not lie along its first dimension
A_SLICE = "a slice as long as the batch"  # of what every rank holds for all samples
A_GRADIENT = "a change in place of the samples' gradient"  # which is N times too large there
A_HOOK = "a hook on the samples' gradient"  # which each rank has for its own samples, N times
A_CUT = "a cut into pieces as long as a whole batch"  # of rows of several tensors
A_STATISTIC = "a statistic of all samples"  # which a model's forward takes
A_CHANGE = "a change in place"  # by rows at one position, which differ among ranks
A_COUNT = "arithmetic of a model with the number of samples"  # of all ranks
A_ROW = "a write into the row at one position"  # which is another sample on each rank
# What shows rows to people: gathered there, an evaluation continues with a rank's rows.
SHOWING = frozenset({"print()", "str()", "repr()", "a formatted string", "an f-string"})
# What gets the rows of all ranks in an evaluation, too, in which others get the whole loader.
GATHERING = SHOWING | {A_KEPT_COLLECTION, A_CRITERION}

# What neither a reduction nor gathered rows resolve.
UNREDUCIBLE = frozenset({A_KEPT_TENSOR, A_VIEW, A_SLICE, A_GRADIENT, A_ROW, A_HOOK, A_CUT})
