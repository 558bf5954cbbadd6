"""ddpify's own runtime in a script: what its functions split, wrap and reduce.

A script that imports it says itself what is split: batches are this rank's part only where a
loader or a batch goes through ``shard`` or ``shard_batch``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import definition_sites
from ddpify.understanding.arguments import Keywords
from ddpify.understanding.arithmetic import sequences
from ddpify.understanding.batching import current_batch
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries import side_effects
from ddpify.understanding.libraries.distributed import held_model
from ddpify.understanding.libraries.object_kinds import is_loader, is_model
from ddpify.understanding.libraries.runtime_names import MODULE, REPLICATING, SHARDED, SPREAD_CALL
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Const,
    Data,
    Device,
    Instance,
    Tup,
    Value,
    join,
    library_value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_LOADER = "torch.utils.data.DataLoader"


def _first(args: list[Value], kwargs: Keywords, name: str) -> Value:
    return args[0] if args else kwargs.get(name, UNKNOWN)


# ---------------------------------------------------------------------- data
def _loader(how: str) -> Callable[..., Value]:
    def share(
        run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
    ) -> Value:
        """A loader like the one given; one of its own where that is not understood."""
        given = _first(args, kwargs, "loader")
        held = [a for a in given.of(Instance) if is_loader(a)]
        made = []
        for atom in held:
            twin = run.instance(node, run.module, atom.type)
            twin.hold_all(atom.attributes, atom.arguments)
            made.append(twin)
        made = made or [run.instance(node, run.module, _LOADER)]
        for twin in made:
            twin.role = "loader"
            run.facts.runtime.shared[twin] = how
            if twin not in run.facts.loaders:
                run.facts.loaders.append(twin)
        return value(*made)

    return share


def _cycle(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    made = run.instance(node, run.module, "generator")
    made.hold("*", run.iterate(node, _first(args, kwargs, "loader")))
    return value(made)


def _use_batch_of(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    held = [a for a in _first(args, kwargs, "loader").of(Instance) if is_loader(a)]
    current_batch.taken(run, frozenset(held))
    return REPLICATED


def _shard_batch(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    parts = tuple(_rows(one, kwargs) for one in args)
    run.takes_batch()
    return parts[0] if len(parts) == 1 else value(Tup(parts))


def _split(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    given = _first(args, kwargs, "x")
    return given if run.all_replicated else _rows(given, kwargs)


def _rows(whole: Value, kwargs: Keywords) -> Value:
    """This rank's rows of what all ranks hold: a tensor, or a tuple or collection of tensors."""
    dim = kwargs.get("dim", UNKNOWN).constant()
    rows = Data(Placement.SHARD, dim=dim if isinstance(dim, int) else 0)
    tuples = [a for a in whole.atoms if isinstance(a, Tup)]
    if tuples:
        return join(*(value(Tup(tuple(_rows(item, kwargs) for item in a.items))) for a in tuples))
    if any(isinstance(a, Instance) and a.type in ("list", "dict") for a in whole.atoms):
        return value(Data(Placement.SHARD, form=Layout.BATCH))
    return value(rows)


# ---------------------------------------------------------------------- values
def _reduction(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    given = _first(args, kwargs, "x")
    if given.data:
        run.facts.reductions.reduced.setdefault(node, set()).update(given.data)
    return definition_sites.reduced(given)


def _given(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """What comes back as it is."""
    return args[0] if args else next(iter(kwargs.values()), UNKNOWN)


def _taken(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """Any number of a batch's rows."""
    rows = _first(args, kwargs, "x")
    return join(*(value(replace(a, form=Layout.MASKED, ndim=0)) for a in rows.data))


def _squeeze(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """The same rows, with a number of dimensions that is not known."""
    given = _first(args, kwargs, "x")
    return join(*(value(replace(a, ndim=0) if isinstance(a, Data) else a) for a in given.atoms))


def _squeeze_in_place(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    left = _squeeze(run, node, args, kwargs)
    if isinstance(node, cst.Call) and isinstance(node.args[0].value, cst.Name):
        run.bind(node.args[0].value.value, left)
    return left


def _snapshot(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    return args[0] if len(args) == 1 else value(Tup(tuple(args)))


def _empty(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    return value(Data(Placement.REPLICATE))


def _number(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    return REPLICATED


def _called(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    return run.call(node, args[0] if args else UNKNOWN, [], {})


def _padded(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    return sequences.call(run, node, "torch.nn.utils.rnn.pad_packed_sequence", args, kwargs)


def _device(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    return value(Device(True, None, conditional=True))


# ---------------------------------------------------------------------- models and files
def _wrap(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """Wraps in place: the model stays the object that it was."""
    held = _first(args, kwargs, "model")
    models = [a for a in held.atoms if isinstance(a, Instance) and is_model(a)]
    sharded = kwargs.get("strategy", value(Const("ddp"))).constant() != "ddp"
    for model in models:
        if sharded:
            run.facts.event(model, "shard", run.site(node))
        run.facts.event(model, "wrap", run.site(node))
        run.facts.runtime.wrapped.setdefault(model, run.site(node))
    return held


def _spread(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    return library_value(SPREAD_CALL)


def _unwrap(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    given = _first(args, kwargs, "model")
    return join(
        *((held_model(a) if isinstance(a, Instance) else None) or value(a) for a in given.atoms)
    )


def _save(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    side_effects.saved(run, node, args)
    return REPLICATED


def _object(name: str) -> Callable[..., Value]:
    def make(run, node, args, kwargs) -> Value:  # type: ignore[no-untyped-def]
        return value(run.instance(node, run.module, f"{MODULE}.{name}"))

    return make


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "shard": _loader(SHARDED),
    "replicate": _loader(REPLICATING),
    "cycle": _cycle,
    "use_batch_of": _use_batch_of,
    "first": _split,
    "shard_batch": _shard_batch,
    "split": _split,
    "mean": _reduction,
    "sum": _reduction,
    "gather": _reduction,
    "gather_ragged": _reduction,
    "full_tensor": _given,
    "averaged": _given,
    "drawn_ragged": _given,
    "trained_rows": _given,
    "trained_tensor": _given,
    "gradient_hook": _given,
    "batch_hook": _given,
    "batch_gradient_hook": _given,
    "broadcast": _given,
    "scale_lr": _given,
    "wrap_scaler": _given,
    "resumable": _given,
    "squeeze": _squeeze,
    "squeeze_": _squeeze_in_place,
    "take": _taken,
    "snapshot": _snapshot,
    "global_like": _empty,
    "pad_packed_sequence": _padded,
    "device": _device,
    "wrap": _wrap,
    "spread": _spread,
    "unwrap": _unwrap,
    "save": _save,
    "drawn_alike": _called,
    "main_saves": _object("main_saves"),
    "main_writes": _object("main_writes"),
    "local_main_first": _object("local_main_first"),
    "save_sharded": _object("save_sharded"),
    "silent": _object("silent"),
    "replicated": _object("replicated"),
    **dict.fromkeys(
        "init barrier rank local_rank world_size is_main global_batch_size global_shape"
        " target_weight gradient_scale load load_sharded shared_generator sync_gradients"
        " reraise".split(),
        _number,
    ),
}
FUNCTIONS: dict[str, Callable[..., Value]] = {
    f"{MODULE}.{name}": function for name, function in _FUNCTIONS.items()
} | {SPREAD_CALL: _empty}
