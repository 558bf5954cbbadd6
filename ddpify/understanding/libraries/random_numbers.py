"""Random numbers with a row for each sample of the batch.

One process draws them for all samples. Ranks share its generators outside of a model's forward:
if each drew for its own rows alone, all would draw the same rows, and the generators would move
less than in one process. So each draws the rows of the whole batch, and keeps its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import alternatives, uses
from ddpify.understanding.batching import batch_sizes, current_batch
from ddpify.understanding.facts import Draw
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.libraries.local_sizes import Part, parts_in, parts_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, displayed
from ddpify.understanding.values import (
    CONTAINERS,
    Atom,
    Const,
    Data,
    Instance,
    Method,
    Number,
    Params,
    QualifiedName,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_LIKE = frozenset("randn_like rand_like randint_like".split())
_GIVEN = frozenset(
    "bernoulli poisson binomial normal multinomial gumbel_softmax rrelu dropout dropout1d dropout2d"
    " dropout3d alpha_dropout feature_dropout feature_alpha_dropout".split()
)
_SIZED = frozenset("randn rand randint".split())
_OF_THE_BATCH = _LIKE | _GIVEN | _SIZED
_ALIKE = _SIZED | {"randperm"}
_FILLING = frozenset(
    "normal_ uniform_ random_ bernoulli_ exponential_ log_normal_ cauchy_ geometric_".split()
)
_OF_ELEMENTS = frozenset({"bernoulli", "multinomial"})  # methods that draw by what is there
_FILLERS = ("torch.Tensor.", "torch.nn.init.")  # functions of what they fill
_INITIAL = frozenset(
    "trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ orthogonal_"
    " sparse_".split()
)
_ARRAYS = frozenset(
    "normal uniform random random_sample random_integers sample ranf standard_normal integers"
    " randint randn rand choice beta binomial chisquare dirichlet exponential f gamma geometric"
    " gumbel hypergeometric laplace logistic lognormal logseries multinomial multivariate_normal"
    " negative_binomial pareto poisson power rayleigh standard_cauchy standard_exponential"
    " standard_gamma standard_t triangular vonmises wald weibull zipf".split()
)
DRAWING = _ARRAYS | {"permutation", "permuted", "shuffle", "bytes"}  # methods of a generator
_PYTHONS = frozenset(  # of Python's generators alone
    "betavariate choices expovariate gammavariate gauss getrandbits lognormvariate normalvariate"
    " paretovariate randbytes randrange sample vonmisesvariate weibullvariate".split()
)
_PICKING = frozenset({"randint", "choice", "integers", "random_integers"})
_SIZE_AT = {"randint": 2, "choice": 1, "integers": 2, "random_integers": 2}
_ORDERS = ("randperm", "permutation")
_NO_DRAWS = frozenset(
    "seed getstate setstate get_state set_state default_rng Generator Random RandomState".split()
)
_SINGLE = ("torch.rand", "torch.randn", "torch.randint", "torch.bernoulli", "torch.normal")
# What gives no row of a rank's own in each round.
_NO_ROUNDS = (*SEVERAL_TENSORS, NumberKind.SHAPE, Layout.PERMUTATION)
_LOOPING = ("range", "enumerate", "zip", "reversed")
_AUGMENTING = (
    "Random", "ColorJitter", "GaussianBlur", "ElasticTransform", "AutoAugment", "RandAugment",
    "TrivialAugment", "AugMix", "MixUp", "CutMix",
)  # fmt: skip
_GATHERED = frozenset(  # whose parameters are tensors that they hold
    "Bernoulli Categorical Cauchy Dirichlet Exponential Gamma Geometric Laplace Normal Poisson"
    " Uniform".split()
)
_SAMPLING = ("sample", "rsample", "sample_n")
_LAYERS = ("torch.nn.Dropout", "torch.nn.AlphaDropout", "torch.nn.FeatureAlphaDropout")


def function(run: RunState, node: cst.BaseExpression, name: str) -> Value | None:
    """A library function that draws; None where it does not, or draws no rows of the batch."""
    short = name.rsplit(".", 1)[-1]
    if not isinstance(node, cst.Call):
        return None
    of_torch = name.startswith("torch.")
    if of_torch and argument(node, "generator") is not None:
        _in_turn(run, node)
    if of_torch and (short in _OF_THE_BATCH or short in _ALIKE):
        _for_the_batch(run, node)
    if of_torch and short in _ALIKE:
        _alike_in_forward(run, node)
    if short in _ORDERS:
        return None
    if name.startswith("numpy.random."):
        return _drawn(run, node, short, shared=True) if short in _ARRAYS else None
    if of_torch and short in _OF_THE_BATCH:
        return _drawn(run, node, short, shared=_has_a_generator(run, node))
    if name.startswith(_FILLERS) and short in _FILLING | _INITIAL:
        return _filled(run, node, short)
    return None


def _filled(run: RunState, node: cst.Call, name: str) -> Value | None:
    """``torch.Tensor.normal_(z)`` and ``nn.init.normal_(z)`` draw as ``z.normal_()`` does."""
    first = node.args[0].value if node.args else None
    rows = [d for d in run.seen(first).data if d.placement is Placement.SHARD] if first else []
    if first is None or not rows:
        _for_all_samples(run, node)
        return None
    _for_the_batch(run, node)
    _draws_in_a_round(run, node, shared=False)
    if isinstance(first, cst.NamedExpr):
        _refuse(run, node, rows[0])
    return _drawn(run, node, name, Part(first, rows[0], rows[0].dim))


def shuffled(run: RunState, node: cst.BaseExpression, name: str) -> None:
    """Rows, or positions of rows, that are put in another order in place: those of all ranks."""
    if name != "shuffle" or not isinstance(node, cst.Call) or not node.args:
        return
    shown = node.args[0].value
    held = run.seen(shown)
    for made in held.of(Instance):
        run.demand_held(shown, made.elements, uses.POSITIONS)
    for data in held.data:
        if data.counting:
            run.demand(shown, value(data), uses.POSITIONS)
        elif data.placement is Placement.SHARD and not run.collating:
            _refuse(run, shown, data)


def method(run: RunState, node: cst.BaseExpression, atom: object, name: str) -> Value | None:
    """A method that draws: of a tensor, of a generator of NumPy's, of a distribution."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    shared = name in _ARRAYS and _is_generator(atom)
    if name in DRAWING | _PYTHONS and _is_generator(atom):
        _in_turn(run, node)
    if shared or name in _FILLING:
        _for_the_batch(run, node)
        _draws_in_a_round(run, node, shared=shared)
    if isinstance(atom, Data) and atom.placement is Placement.SHARD:
        return _of_tensor(run, node, atom, name)
    shuffled(run, node, name)
    if name in _FILLING:
        _note_replicated(run, node)
    if name in _FILLING | _OF_ELEMENTS:
        _for_all_samples(run, node)
    if isinstance(atom, Instance):
        return _of_distribution(run, node, atom, name)
    if name in _ARRAYS and not isinstance(atom, Data):
        rows = _drawn(run, node, name, shared=True)
        return of_a_batchs_size(run, node) if rows is None and shared else rows
    return None


def layer(run: RunState, node: cst.BaseExpression, target: Instance) -> Value | None:
    """A layer that draws, called by itself."""
    kind = target.type
    if _augments(target) or (isinstance(kind, str) and kind.startswith(_LAYERS)):
        _for_the_batch(run, node)
    if _augments(target):
        _draws_in_a_round(run, node, shared=False)
    if not isinstance(kind, str) or not kind.startswith(_LAYERS) or run.frames_forward():
        return None
    return _drawn(run, node, "dropout") if isinstance(node, cst.Call) else None


def _of_tensor(run: RunState, node: cst.Call, atom: Data, name: str) -> Value | None:
    assert isinstance(node.func, cst.Attribute)
    if name not in _FILLING | _OF_ELEMENTS:
        return None
    _for_the_batch(run, node)
    shared = _has_a_generator(run, node)
    return _drawn(run, node, name, Part(node.func.value, atom, atom.dim), shared=shared)


def _has_a_generator(run: RunState, node: cst.Call) -> bool:
    """Whether a draw is from a generator of the script's own: each rank's gives the same."""
    given = argument(node, "generator")
    return given is not None and run.seen(given.value).constant() is not None


def _of_distribution(run: RunState, node: cst.Call, atom: Instance, name: str) -> Value | None:
    known = isinstance(atom.type, str) and atom.type.startswith("torch.distributions.")
    if not known or name not in _SAMPLING:
        return None
    _for_the_batch(run, node)
    rows = [d for held in atom.arguments.values() for d in held.data]
    if not rows:
        return _drawn(run, node, name) or of_a_batchs_size(run, node)
    if run.frames_forward():
        return value(rows[0].placed(Placement.SHARD))
    if _is_of_tensors(atom) and not node.args and all(_is_plain(one) for one in rows):
        return _drawn(run, node, name, Part(node.func.value, rows[0], 0))  # type: ignore[attr-defined]
    _refuse(run, node, rows[0])
    return value(rows[0].placed(Placement.SHARD))


def _is_of_tensors(distribution: Instance) -> bool:
    """Whether the runtime makes that of all ranks' rows of it."""
    return distribution.kind.removeprefix("torch.distributions.") in _GATHERED


def _is_plain(rows: Data) -> bool:
    shard = rows.placement is Placement.SHARD and rows.form is Layout.TENSOR
    return shard and rows.dim == 0 and not rows.several


def of_a_batchs_size(run: RunState, node: cst.BaseExpression) -> Value | None:
    """What is made for a whole batch, by the name of its size: a rank takes its own rows."""
    loaders = batch_sizes.sized_like(run, node)
    if not loaders or not run.module.editable:
        return None
    run.facts.random.made_replicated.setdefault(node, run.site(node))
    rows = Data(Placement.SHARD, loaders)
    current_batch.used(run, node, [rows])
    return value(rows)


# ---------------------------------------------------------------------- what it draws
def _drawn(
    run: RunState,
    node: cst.Call,
    name: str,
    receiver: Part | None = None,
    *,
    shared: bool = False,
) -> Value | None:
    """Note a call that draws rows for the batch; the rows."""
    picked = _positions(run, node, name) if receiver is None else None
    if picked is not None:
        return picked
    filled = receiver.node if receiver else None
    parts = [part for part in parts_of(run, node, name) if part.node is not filled]
    first = receiver or next(iter(parts), None)
    if first is None:
        if name in _LIKE and run.in_batch_loop() and node.args and run.seen(node.args[0].value):
            run.facts.random.drawn_replicated.setdefault(node, run.site(node))
        _note_replicated(run, node)
        if not shared:
            _for_all_samples(run, node)
        return None
    if run.collating:  # in the rank's own stream, or for all samples
        return value(_rows(first, parts))
    if not run.frames_forward() and receiver is None and _is_like_what_is_left(run, name, parts):
        run.facts.random.ragged.setdefault(node, run.site(node))
        return value(replace(parts[0].data, definition_sites=frozenset()))
    _ask_for_what_is_left(run, [*parts, *([receiver] if receiver else [])])
    draw = run.facts.random.draws.setdefault(node, Draw(run.site(node), first.dim, shared=shared))
    draw.inside.add(_models(run))
    run.facts.random.drawn_through.setdefault(node, set()).add(run.call_path)
    if receiver is not None:
        if name in _FILLING | _INITIAL:
            draw.filled = receiver.node
        else:
            _add(draw.given, receiver.node)
    for part in parts:
        _add(_kind(draw, part, name), part.node)
        if part.data.placement is Placement.COUNT:
            run.facts.sizes.shape_uses.update(part.data.definition_sites)
    rows = value(_rows(first, [*parts, *([receiver] if receiver else [])]))
    current_batch.used(run, node, [*rows.data, *(part.data for part in parts)])
    mixed = bool(draw.given) and draw.dim > 0
    if (shared or not run.frames_forward()) and (mixed or not run.module.editable):
        _refuse(run, node, rows.data[0])
    return rows


def _is_like_what_is_left(run: RunState, name: str, parts: list[Part]) -> bool:
    """Whether this draws as many numbers as a mask left of a rank's rows."""
    ragged = len(parts) == 1 and parts[0].data.ragged and not parts[0].data.parted
    return name in _LIKE and ragged and not parts[0].dim and run.module.editable


def _ask_for_what_is_left(run: RunState, parts: list[Part]) -> None:
    """What masks left is drawn for with that of all ranks: no rank knows its place among them."""
    if run.frames_forward():
        return
    for part in parts:
        if part.data.ragged:
            run.demand(part.node, value(part.data), uses.A_DRAW)


def _positions(run: RunState, node: cst.Call, name: str) -> Value | None:
    """Positions of rows that are drawn, as by ``randint(0, len(x), (4,))``: among those of all.

    As many as there are rows are an order of them, in which some may come again.
    """
    plain = [argument.value for argument in node.args if argument.keyword is None]
    named = [a.value for a in node.args if a.keyword is not None and a.keyword.value == "size"]
    first = _SIZE_AT.get(name, len(plain))
    if name == "randint" and plain and not named and isinstance(plain[-1], (cst.Tuple, cst.List)):
        first = len(plain) - 1
    limits, sizes = plain[:first], [*plain[first : first + 1], *named]
    counted = [n for n in limits if any(d.placement is Placement.COUNT for d in run.seen(n).data)]
    totals = [n for n in limits if any(_is_total(a) for a in run.seen(n).atoms)]
    if name not in _PICKING or not (counted or (sizes and totals)) or run.collating:
        return None
    if run.frames_forward() and not run.module.editable:
        return None
    shared_in_forward(run, node)
    if not sizes:  # randint(len(x)) is one number
        return _among_all(run, counted, Number())
    lengths = [part for size in sizes for part in parts_in(run, size, 0, 0)]
    counts = [d for n in counted for d in run.seen(n).data]
    run.facts.sizes.shape_uses.update(
        definition_site for data in counts for definition_site in data.definition_sites
    )
    if counts and lengths and all(part.data.placement is Placement.COUNT for part in lengths):
        current_batch.used(run, node, counts)
        shown = [*counted, *(part.node for part in lengths)]
        run.facts.random.orders.setdefault(node, Draw(run.site(node), counts=shown))
        return value(replace(counts[0].placed(Placement.SHARD), form=Layout.PERMUTATION))
    return _among_all(run, counted, Data(Placement.REPLICATE, form=Layout.GATHERED))


def _among_all(run: RunState, limits: list[cst.BaseExpression], made: Atom) -> Value:
    """What is drawn below limits that count a rank's rows: below those of all ranks."""
    for limit in limits:
        run.demand(limit, run.seen(limit), uses.ROWS_OF_ALL)
    return value(made)


def shared_in_forward(run: RunState, node: cst.CSTNode) -> None:
    """Note positions that all ranks must draw alike, where each draws from a stream of its own."""
    if run.frames_forward() and not run.collating and isinstance(node, cst.Call):
        run.facts.random.shared_draws[node] = run.site(node)
        if run.recomputing:
            run.facts.random.drawn_again[node] = run.site(node)


def _alike_in_forward(run: RunState, node: cst.Call) -> None:
    """Let a forward draw alike on all ranks what has no row for each sample: it is for them all."""
    sizes = [a.value for a in node.args if a.keyword is None or a.keyword.value == "size"]
    given = {a.keyword.value for a in node.args if a.keyword is not None}
    parts = [part for size in sizes for part in _sizes_in(size)]
    held = [run.seen(part) for part in parts]
    alike = all(
        one.atoms and all(isinstance(a, (Const, Number)) for a in one.atoms) for one in held
    )
    inside = run.module.editable and not run.collating
    if sizes and alike and inside and not run.rows_taken and not given & {"generator", "out"}:
        shared_in_forward(run, node)


def _for_all_samples(run: RunState, node: cst.Call) -> None:
    """Let a forward draw alike on all ranks what is made of nothing that belongs to samples.

    ``Beta(0.4, 0.4).sample()`` and ``torch.randn_like(self.weight)`` have no row for each.
    """
    known = run.facts.random
    own = argument(node, "generator") is not None
    inside = run.frames_forward() and run.module.editable and not run.collating
    if not inside or own or run.rows_taken or node in known.shared_draws:
        return
    shown = [one.value for one in node.args]
    if isinstance(node.func, cst.Attribute):
        shown.append(node.func.value)
    named = any(isinstance(one, cst.NamedExpr) for one in walk(node))
    held = [run.seen(one) for one in shown]
    if not named and all(map(_is_of_all, held)):
        by_hand = any(isinstance(a, ReplicatedTensor) for one in held for a in one.atoms)
        (known.perhaps_alike if by_hand else known.drawn_alike)[node] = run.site(node)
        if run.recomputing:
            known.drawn_again[node] = run.site(node)


def _is_of_all(held: Value) -> bool:
    """Whether all ranks hold this: no rows, nor their number, nor what is not known at all."""
    return bool(held.atoms) and all(map(_is_known_of_all, held.atoms))


def _is_known_of_all(atom: Atom) -> bool:
    if isinstance(atom, Tup):
        return all(map(_is_of_all, atom.items))
    if isinstance(atom, Method):  # ``shape`` of a tensor
        return _is_of_all(atom.receiver)
    if isinstance(atom, Instance) and atom.kind.startswith("torch.distributions."):
        return all(map(_is_of_all, atom.arguments.values()))
    if isinstance(atom, Instance):
        return atom.kind in CONTAINERS and _is_of_all(atom.elements)
    return isinstance(atom, (Const, Number, Params, QualifiedName, ReplicatedTensor))


def _sizes_in(size: cst.BaseExpression) -> list[cst.BaseExpression]:
    parts = displayed(size)
    return [size] if parts is None else parts


def _is_total(atom: Atom) -> bool:
    return isinstance(atom, Data) and atom.form is NumberKind.TOTAL


def _note_replicated(run: RunState, node: cst.Call) -> None:
    """Note the way to a draw of replicated values, where there may be a current batch."""
    known = any(run.seen(argument.value).atoms for argument in node.args)
    split = run.facts.loading.iterated or run.choices.batches  # by a loader, or by hand
    if known and split and run.meets_split_batches():
        run.facts.random.drawn_replicated_through.setdefault(node, set()).add(run.call_path)


def _kind(draw: Draw, part: Part, name: str) -> list[cst.BaseExpression]:
    """The list of a draw that a part belongs to."""
    if part.data.placement is Placement.COUNT:
        return draw.counts
    if part.data.form is NumberKind.SHAPE:
        return draw.shapes
    return draw.alike if name in _LIKE else draw.given


def _add(known: list[cst.BaseExpression], node: cst.BaseExpression) -> None:
    if node not in known:
        known.append(node)


def _rows(first: Part, parts: list[Part]) -> Data:
    loaders = frozenset(loader for part in parts for loader in part.data.loaders)
    made = first.data.placed(Placement.SHARD)
    return Data(made.placement, loaders, names=made.names, dim=first.dim, ndim=first.ndim)


def _models(run: RunState) -> frozenset[Instance]:
    """The models whose forward is in progress."""
    held = (frame.receiver for frame in run.frames if frame.in_forward)
    return frozenset(one for one in held if one is not None)


def _refuse(run: RunState, node: cst.BaseExpression, rows: Data) -> None:
    """Let the batch be replicated where this draws: nothing done here makes its rows right."""
    # Rows of a form that no reduction here suits: gathered further up, or not at all.
    run.demand(node, value(Data(Placement.SHARD, rows.loaders, form=Layout.PACKED)), uses.A_DRAW)


def one_by_one(run: RunState, node: cst.BaseExpression, name: str) -> None:
    """A call that draws a number, in a loop over the rows of this rank."""
    shared = name.startswith(("random.", "numpy.random."))
    if shared and name.rsplit(".", 1)[-1] not in _NO_DRAWS:
        _for_the_batch(run, node)
    if shared or name in _SINGLE:
        _draws_in_a_round(run, node, shared=shared)


def _for_the_batch(run: RunState, node: cst.BaseExpression) -> None:
    """Note what a collate function draws outside of a loop over samples: it is for all of them.

    A rank that puts its own samples together would draw, in a stream of its own, something else.
    """
    if run.collated is not None and not run.rounds:
        run.mixes_batches(node, (run.collated,))


def _in_turn(run: RunState, node: cst.BaseExpression) -> None:
    """Note what a collate function draws from a generator of the script's own.

    That gives the samples of a batch its numbers in their order, and goes on with the next batch.
    """
    if run.collated is not None:
        run.mixes_batches(node, (run.collated,))


def _draws_in_a_round(run: RunState, node: cst.BaseExpression, *, shared: bool) -> None:
    """A draw for one sample each, from a generator that ranks share even in forwards or not."""
    alone = run.frames_forward() and not shared  # in a stream of the rank's own
    if run.rows_taken and not alone and not run.collating:
        rows = run.rows_taken[-1]
        if _is_given_rows(run) or not rows.definition_sites:
            _refuse(run, node, rows)  # the call is given the rows of all ranks, if it can be
            return
        # What the rounds are counted by: each rank draws for all samples, in their order.
        for site in rows.definition_sites:
            run.demand(site, run.seen(site), uses.ROWS_OF_ALL)


def _is_given_rows(run: RunState) -> bool:
    """Whether the function that runs, and is no forward, got rows of this rank as arguments."""
    called = run.frame.call is not None and not run.frames_forward()
    passed = run.frame.scope.passed if called else ()
    names = run.frame.scope.names
    return any(d.placement.local for name in passed if name in names for d in names[name].data)


def _is_generator(atom: object) -> bool:
    """Whether this is a generator of Python's or, a plain value, of NumPy's."""
    if isinstance(atom, Instance):
        return atom.kind.startswith("random.")
    return isinstance(atom, Number)


def _augments(target: Instance) -> bool:
    """Whether this is a transform of torchvision's that draws, or one of several."""
    if not target.kind.startswith("torchvision.transforms."):
        return False
    if target.kind.rsplit(".", 1)[-1].startswith(_AUGMENTING):
        return True
    held = (deep_atoms(one) for one in target.arguments.values())
    return any(isinstance(a, Instance) and _augments(a) for atoms in held for a in atoms)


def ask_for_all(run: RunState, through: cst.BaseExpression) -> None:
    """Ask that a loop over a rank's rows goes over those of all ranks, which take part in each."""
    for data in value(*alternatives.taken_apart(run.seen(through).atoms)).data:
        if data.placement is Placement.COUNT:
            for site in data.definition_sites:
                run.demand(site, run.seen(site), uses.ROWS_OF_ALL)
        elif data.placement is Placement.SHARD and data.form not in _NO_ROUNDS:
            run.demand(through, value(data), uses.A_STATISTIC)
    if isinstance(through, cst.Call) and run.calls_builtin(through, *_LOOPING):
        for argument in through.args:
            ask_for_all(run, argument.value)


def rows_of(run: RunState, node: cst.BaseExpression) -> Data | None:
    """The rows that a loop takes one by one: ``x``, ``range(len(x))`` or ``enumerate(x)``."""
    for data in run.seen(node).data:
        if data.placement is Placement.COUNT or (
            data.placement is Placement.SHARD and data.form not in _NO_ROUNDS
        ):
            return data
    if isinstance(node, cst.Call) and run.calls_builtin(node, *_LOOPING):
        found = (rows_of(run, argument.value) for argument in node.args)
        return next((data for data in found if data is not None), None)
    return None
