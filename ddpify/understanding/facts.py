"""What the interpreter learned about a script: the one place where a pitfall is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ddpify.records import record
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.values import Data, Instance, ReplicatedTensor, Value, join


@record
class Site:
    """A node and its file."""

    node: cst.CSTNode
    module: ModuleFile

    @property
    def line(self) -> int:
        """1-based line."""
        return self.module.line(self.node)


Calls = tuple[Site, ...]  # in progress, outermost first
# The dimension of a batch's rows: one for all of it, or one for each part of a tuple or of a
# dictionary. None is for a part that has no rows.
Dimensions = int | None
Layout = tuple[Dimensions, ...] | dict[str, Dimensions]
Place = tuple[cst.CSTNode, int]  # where a batch is made, and the dimension of its rows there


@record
class Demand:
    """A place that reads a value of which each rank holds only its part.

    ``reader`` says what reads it, in words for a report. ``calls`` are the calls, outermost
    first, through which the reader was reached.
    """

    site: Site
    data: Data
    reader: str
    calls: Calls = ()


@record
class Event:
    """Something that happens to a model: made, moved, changed, called, given to an optimizer."""

    kind: str
    site: Site
    gradient: bool = False


@record
class Effect:
    """A place that acts on the world outside: ``codemods.effects`` lists the kinds."""

    kind: str
    site: Site
    name: str
    calls: Calls = ()

    @property
    def reached_from(self) -> Site | None:
        """The innermost call, in a file that may be changed, that leads to a file that may not."""
        if self.site.module.editable:
            return None
        return next((call for call in reversed(self.calls) if call.module.editable), None)


@record
class Regrouped:
    """An expression whose rows depend on others of the batch, those of ``rows`` and ``others``.

    ``own_backward``: it has a backward of the script's own. ``in_place``: it is a method that
    changes ``rows``.
    """

    site: Site
    rows: cst.BaseExpression
    stacked: bool = False  # of several tensors, under each other
    dims: frozenset[int] = frozenset({0})  # those along which the rows lie, call by call
    others: tuple[cst.BaseExpression, ...] = ()
    own_backward: bool = False
    in_place: bool = False


@record
class SampleHook:
    """A hook that gets the rows of all ranks along ``dim``, or their ``gradient``.

    ``rowless``: it puts something without a row for each sample in their place.
    """

    site: Site
    gradient: bool
    dim: int = 0
    rowless: bool = False


@record
class ReplicatedCall:
    """A call of a model on replicated values, while there is a current batch."""

    site: Site
    models: frozenset[Instance]
    gathered: bool  # rows of all ranks, to be trained on
    in_loop: bool = True  # over a loader's batches, of which one is current


@record
class Switch:
    """A place where a model may change its mode, ``True`` for training; perhaps another model."""

    site: Site
    modes: frozenset[bool]
    surely: bool = False


@record
class States:
    """States, or lengths, of the whole batch that a layer gets beside this rank's rows.

    ``dim`` is the dimension of the rows in them; ``rows`` is code for how many the layer's input
    has, empty where the input has no name.
    """

    site: Site
    dim: int
    rows: str


@record
class LateUse:
    """A use of a batch of ``loaders`` while one of the loaders ``current_loaders`` has come after
    it.
    """

    site: Site
    loaders: frozenset[Instance]
    current_loaders: frozenset[Instance]
    calls: Calls = ()


@dataclass(repr=False, slots=True)
class Draw:
    """A call that draws rows for the batch along ``dim``, and what in it is of this rank alone.

    ``counts`` and ``shapes`` give a number of rows or a whole shape, ``alike`` are tensors whose
    kind and size the result takes, ``given`` rows of numbers that it depends on. ``filled`` is what
    it fills in place. ``inside`` are the models whose forwards were in progress, at each visit;
    ``shared`` marks a generator that the ranks share there too.
    """

    site: Site
    dim: int = 0
    counts: list[cst.BaseExpression] = field(default_factory=list)
    shapes: list[cst.BaseExpression] = field(default_factory=list)
    alike: list[cst.BaseExpression] = field(default_factory=list)
    given: list[cst.BaseExpression] = field(default_factory=list)
    filled: cst.BaseExpression | None = None
    inside: set[frozenset[Instance]] = field(default_factory=set)
    shared: bool = False


@record
class Entry:
    """A batch that enters a model, in ``training`` or not: all that may be known of its rows.

    It may be ``tested`` though gradients are on: the model is in evaluation mode.
    """

    site: Site
    training: bool
    tested: bool
    held: tuple[ReplicatedTensor, ...]
    model: Instance


@dataclass(eq=False, repr=False, slots=True)
class Facts:
    """All facts of one run of the interpreter."""

    values: dict[cst.CSTNode, Value] = field(default_factory=dict)
    loaders: list[Instance] = field(default_factory=list)
    # Loaders whose batches are used together, with the place; of those, the ones in step.
    used_together: dict[frozenset[Instance], Site] = field(default_factory=dict)
    in_step: set[frozenset[Instance]] = field(default_factory=set)
    # Loaders whose rows are combined one by one, which works with as many of each alone.
    combined: set[frozenset[Instance]] = field(default_factory=set)
    beside: set[Instance] = field(default_factory=set)  # taken while others' are in use
    late_uses: dict[cst.CSTNode, LateUse] = field(default_factory=dict)
    past_batches: dict[cst.CSTNode, LateUse] = field(default_factory=dict)  # the next one came
    cuttable: dict[cst.CSTNode, Site] = field(default_factory=dict)  # by what is sliced: rows[:n]
    switched: set[cst.CSTNode] = field(default_factory=set)  # of the chosen switches, those needed
    joined: set[Instance] = field(default_factory=set)  # to rows of others, of another number
    two_sizes: dict[cst.CSTNode, LateUse] = field(default_factory=dict)  # made of two batches
    cycled: dict[cst.CSTNode, Site] = field(default_factory=dict)  # itertools.cycle(loader)
    # Loaders whose collate function is understood: the dimension of the rows, of all or each part.
    layouts: dict[Instance, Layout] = field(default_factory=dict)
    numbered: set[Instance] = field(default_factory=set)
    # Loaders whose collate function lets the samples of a batch depend on each other, and where.
    mixed: dict[Instance, Site] = field(default_factory=dict)
    regrouped: dict[cst.CSTNode, Regrouped] = field(default_factory=dict)
    taken_rows: dict[cst.CSTNode, Site] = field(default_factory=dict)  # x[nearest]
    orders: dict[cst.CSTNode, Draw] = field(default_factory=dict)  # permutations of a batch
    shared_draws: dict[cst.CSTNode, Site] = field(default_factory=dict)  # those of a forward
    named_sizes: dict[cst.CSTNode, Site] = field(default_factory=dict)  # x.view(batch_size, ...)
    draws: dict[cst.CSTNode, Draw] = field(default_factory=dict)  # random rows for a batch
    counted_slices: dict[cst.CSTNode, Draw] = field(default_factory=dict)  # noise[: len(batch)]
    drawn_replicated: dict[cst.CSTNode, Site] = field(
        default_factory=dict
    )  # for what all ranks hold
    # Loops over what a loader's batch holds, of which each round is a step of its own.
    part_steps: dict[cst.CSTNode, Site] = field(default_factory=dict)
    # The calls that lead to a draw for this rank's rows, and for what all ranks hold.
    drawn_through: dict[cst.CSTNode, set[Calls]] = field(default_factory=dict)
    drawn_replicated_through: dict[cst.CSTNode, set[Calls]] = field(default_factory=dict)
    made_replicated: dict[cst.CSTNode, Site] = field(
        default_factory=dict
    )  # of the loader's batch size
    replicated_rows: dict[cst.CSTNode, Site] = field(
        default_factory=dict
    )  # beside a rank's, of as many
    states: dict[cst.CSTNode, States] = field(default_factory=dict)  # of recurrent layers
    lengths: dict[cst.CSTNode, States] = field(default_factory=dict)  # of all sequences of a batch
    padded: dict[cst.CSTNode, Site] = field(default_factory=dict)  # to a rank's longest sequence
    replicated_calls: dict[cst.CSTNode, ReplicatedCall] = field(default_factory=dict)
    sharded_calls: set[cst.CSTNode] = field(default_factory=set)
    row_calls: dict[Instance, bool] = field(default_factory=dict)  # from rows, whether to rows
    trained_by_rows: set[Instance] = field(default_factory=set)  # which perhaps train on a rank's
    # Of rows that are picked from an expression by position: what the positions were counted by.
    positions: dict[cst.CSTNode, set[cst.BaseExpression]] = field(default_factory=dict)
    unwraps: dict[cst.CSTNode, Site] = field(default_factory=dict)  # model.module
    # Of a script that uses ddpify's runtime: loaders with how it shares them, and wrapped models.
    shared: dict[Instance, str] = field(default_factory=dict)
    wrapped: dict[Instance, Site] = field(default_factory=dict)
    reduced: dict[cst.CSTNode, set[Data]] = field(default_factory=dict)  # what reductions got
    reduced_replicated: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of a global value
    # The calls that lead to a reduction with this rank's part, and with a global value.
    reduced_through: dict[cst.CSTNode, set[Calls]] = field(default_factory=dict)
    replicated_through: dict[cst.CSTNode, set[Calls]] = field(default_factory=dict)
    # Reductions that get rows of all ranks on one way through the script, a rank's on another.
    half_gathered: set[cst.CSTNode] = field(default_factory=set)
    # Layers that go along the samples of the batch, as if those were the steps of a sequence.
    along_rows: dict[cst.CSTNode, Site] = field(default_factory=dict)
    # In models' forwards: rows that were gathered there, and layers that get rows of all ranks.
    gathered_in_forward: dict[cst.CSTNode, Site] = field(default_factory=dict)
    on_all_rows: dict[cst.CSTNode, Site] = field(default_factory=dict)
    made_in_forward: dict[cst.CSTNode, Site] = field(default_factory=dict)  # with random weights
    half_reduced: set[cst.CSTNode] = field(default_factory=set)
    used_on_rows: set[cst.CSTNode] = field(default_factory=set)  # reductions, in a training step
    iterated: set[Instance] = field(default_factory=set)
    escaping_loaders: dict[cst.BaseExpression, Site] = field(
        default_factory=dict
    )  # loaders, to unseen code
    # Calls of unseen code that take the rows of all ranks; those that give a batch back.
    unseen_calls: set[cst.CSTNode] = field(default_factory=set)
    given_back: dict[cst.CSTNode, frozenset[Instance]] = field(default_factory=dict)
    optimizers: list[Instance] = field(default_factory=list)
    stepped: set[Instance] = field(default_factory=set)  # models whose gradients the script uses
    models: dict[Instance, None] = field(default_factory=dict)  # in the order of making
    buffers: set[tuple[Instance, str]] = field(default_factory=set)  # of models, by their names
    parameters: set[tuple[Instance, str]] = field(default_factory=set)  # which models make
    events: dict[Instance, list[Event]] = field(default_factory=dict)
    _known_events: set[tuple[Instance, Event]] = field(default_factory=set)
    # By the reader and the placement that it gets; numbers of rows also by where they are counted.
    demands: dict[tuple[object, ...], Demand] = field(default_factory=dict)
    effects: dict[tuple[str, cst.CSTNode], Effect] = field(default_factory=dict)
    taken_gradients: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of models' parameters
    row_gradients: dict[cst.CSTNode, Site] = field(default_factory=dict)  # x.grad of rows
    loose_gradients: dict[cst.CSTNode, Site] = field(default_factory=dict)  # of no model's tensors
    scaled_losses: dict[cst.CSTNode, Site] = field(default_factory=dict)  # in autograd.grad()
    scaled_without_graph: set[cst.CSTNode] = field(default_factory=set)  # of those, under no_grad()
    reached_backwards: set[cst.CSTNode] = field(default_factory=set)  # of those, by some call
    backwards: dict[cst.CSTNode, tuple[Site, Value]] = field(default_factory=dict)
    library_calls: dict[str, dict[cst.CSTNode, Site]] = field(default_factory=dict)
    shape_uses: set[cst.CSTNode] = field(default_factory=set)
    # Functions with a backward of their own: which arguments of their forwards are rows.
    applied: dict[cst.CSTNode, set[int]] = field(default_factory=dict)
    applied_to_all: set[cst.CSTNode] = field(default_factory=set)  # of those, to all ranks' rows
    last_sizes: dict[cst.CSTNode, Site] = field(default_factory=dict)  # perhaps numbers of rows
    # Numbers of rows that something replicated is divided by, with the loaders of the rows.
    divisors: dict[cst.BaseExpression, set[Instance]] = field(default_factory=dict)
    device_moves: dict[cst.CSTNode, tuple[Site, Value]] = field(default_factory=dict)
    # Of rows, with no dimension named, and the dimension of the rows.
    squeezes: dict[cst.CSTNode, tuple[Site, int]] = field(default_factory=dict)
    # Calls in a model's forward that mix the samples of its batch, as ``x.mean(dim=0)`` does.
    statistics: dict[cst.CSTNode, Site] = field(default_factory=dict)
    gradient_hooks: dict[cst.CSTNode, Site] = field(default_factory=dict)  # on parameters
    # Functions that get a parameter when its gradient has been added to those before.
    accumulation_hooks: dict[cst.CSTNode, Site] = field(default_factory=dict)
    # Functions that get what goes through a layer, or the gradients of samples.
    sample_hooks: dict[cst.CSTNode, SampleHook] = field(default_factory=dict)
    # Functions along a dimension that is counted from the end of a tensor of unknown dimensions.
    unsure_dimensions: dict[cst.CSTNode, Site] = field(default_factory=dict)
    # Functions whose calls are taken together, and may not all give parts, with a call.
    taken_together: dict[cst.CSTNode, Site] = field(default_factory=dict)
    callers: dict[cst.CSTNode, set[Site]] = field(default_factory=dict)
    # By the places of ``train()`` and ``eval()``. These and the callers outlast a pass.
    switches: dict[Instance, dict[Site, Switch]] = field(default_factory=dict)
    # Batches that the script makes by hand: what enters models, and what is known of the rows.
    entries: dict[tuple[cst.CSTNode, int], Entry] = field(default_factory=dict)
    entered_together: set[frozenset[cst.CSTNode]] = field(default_factory=set)  # by their places
    refuted: set[Place] = field(default_factory=set)
    without_rows: set[cst.CSTNode] = field(default_factory=set)  # places of indices and masks
    confirmed: set[Place] = field(default_factory=set)
    # What meets a split batch, and must be split too, with the sources of those batches.
    wanted: dict[Place, set[Instance]] = field(default_factory=dict)
    flat: set[cst.CSTNode] = field(default_factory=set)  # of those, the flattened ones
    # Of the places that were chosen to split batches at: where rows came split or replicated.
    split_before: dict[cst.CSTNode, Site] = field(default_factory=dict)
    split_here: set[cst.CSTNode] = field(default_factory=set)
    # Batches made by hand that enter a model while a loader's are in use.
    beside_loaders: dict[cst.CSTNode, Site] = field(default_factory=dict)
    unmatched: dict[cst.CSTNode, Site] = field(default_factory=dict)  # does so in no known way

    @property
    def iterated_loaders(self) -> list[Instance]:
        """The loaders that the script goes through."""
        return [loader for loader in self.loaders if loader in self.iterated]

    def record(self, node: cst.CSTNode, value: Value) -> Value:
        """Add what an expression was seen to be; the same, as the object that was seen before."""
        known = self.values.get(node)
        if known is None:
            self.values[node] = value
        elif known is not value:
            if known.atoms == value.atoms:
                return known  # what is made of it is soon found to be equal, too
            if not known.covers(value):
                self.values[node] = join(known, value)
        return value

    def called_from(self, function: cst.CSTNode, site: Site) -> bool:
        """Note a call of a function; whether it is a new one."""
        known = self.callers.setdefault(function, set())
        new = site not in known
        known.add(site)
        return new

    def event(self, model: Instance, kind: str, site: Site, gradient: bool = False) -> None:
        """Note an event of a model, once for each place, in the order of the run."""
        event = Event(kind, site, gradient)
        if (model, event) not in self._known_events:
            self._known_events.add((model, event))
            self.events.setdefault(model, []).append(event)

    def calls_to(self, *prefixes: str) -> Iterator[tuple[str, Site]]:
        """Calls of library functions whose qualified names start so."""
        for name, sites in self.library_calls.items():
            if name.startswith(prefixes):
                yield from ((name, site) for site in sites.values())
