"""What already distributed scripts call: wrappers of models, collectives, process groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.values import (
    CONTAINERS,
    REPLICATED,
    UNKNOWN,
    Bound,
    Class,
    Const,
    Function,
    Instance,
    QualifiedName,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

Keywords = dict[str, Value]

DDP = "torch.nn.parallel.DistributedDataParallel"
FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
FULLY_SHARD = "torch.distributed.fsdp.fully_shard"
WRAPPERS = (DDP, FSDP)
INIT_GROUP = "torch.distributed.init_process_group"
IS_INITIALIZED = "torch.distributed.is_initialized"
SAMPLER = "torch.utils.data.distributed.DistributedSampler"
ALIASES = {
    "torch.nn.parallel.distributed.DistributedDataParallel": DDP,
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": FSDP,
    "torch.distributed._composable.fsdp.fully_shard": FULLY_SHARD,
    "torch.distributed._composable.fsdp.fully_shard.fully_shard": FULLY_SHARD,
    "torch.utils.data.DistributedSampler": SAMPLER,
    "torch.distributed.distributed_c10d.get_rank": "torch.distributed.get_rank",
    "torch.distributed.distributed_c10d.is_initialized": IS_INITIALIZED,
}
# Collectives that combine values, so that what they give is the same on all ranks that take part.
REDUCING = frozenset(
    f"torch.distributed.{name}"
    for name in (
        "all_reduce all_gather all_gather_object all_gather_into_tensor all_gather_single gather"
        " gather_object reduce reduce_scatter reduce_scatter_tensor broadcast"
        " broadcast_object_list all_reduce_coalesced all_gather_coalesced scatter"
        " scatter_object_list all_to_all all_to_all_single _all_gather_base"
        " nn.all_reduce nn.all_gather nn.functional.all_reduce nn.functional.all_gather"
        " _functional_collectives.all_reduce"
    ).split()
)
IN_PLACE = frozenset(f"torch.distributed.{name}" for name in ("all_reduce", "reduce", "broadcast"))
REDUCING_NAMES = frozenset(name.rsplit(".", 1)[-1] for name in REDUCING)
COLLECTIVES = REDUCING | frozenset(
    f"torch.distributed.{name}"
    for name in "barrier monitored_barrier new_group new_subgroups init_process_group".split()
)
# At which position a collective takes its process group.
_GROUP_AT = dict.fromkeys(REDUCING, 2) | {
    f"torch.distributed.{name}": position
    for position, names in (
        (0, "barrier monitored_barrier"),
        (3, "reduce gather gather_object scatter scatter_object_list reduce_scatter"),
        (3, "reduce_scatter_tensor"),
        (4, "all_to_all_single"),
    )
    for name in names.split()
}
METRICS = ("torchmetrics.", "torcheval.", "pytorch_lightning.metrics.")
# What starts a function in processes of its own, with their number as its first argument.
SPAWNS = (
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.start_processes",
    "torch.multiprocessing.spawn.spawn",
)
# One process with a function of its own.
PROCESSES = ("torch.multiprocessing.Process", "multiprocessing.Process")
_GROUP_STARTS = INIT_GROUP.rsplit(".", 1)[-1]


def has_group(call: cst.Call, names: Iterable[str]) -> bool:
    """Whether a collective with these names, or a wrapper, is told which ranks meet in it."""
    if argument(call, "process_group") is not None:
        return True  # a wrapper's
    at = [None, *(_GROUP_AT[name] for name in names if name in _GROUP_AT)]
    given = [argument(call, "group", position) for position in at]
    return any(one is not None and not _is_default(one.value) for one in given)


def _is_default(group: cst.BaseExpression) -> bool:
    """``None``, and ``0`` as PyTorch had it once: all ranks."""
    return isinstance(group, cst.Integer) or code_of(group) == "None"


def held_model(wrapper: Instance) -> Value | None:
    """The model inside a DDP or FSDP object; None for anything else."""
    if wrapper.type not in WRAPPERS:
        return None
    return wrapper.arguments.get("module", UNKNOWN)


def held_forwards(wrapper: Instance) -> Iterator[tuple[Instance, Function]]:
    """The models of the project's classes in a DDP or FSDP object, each with its forward."""
    for model in (held_model(wrapper) or UNKNOWN).of(Instance):
        found = model.type.find("forward") if isinstance(model.type, Class) else None
        for function in (found or UNKNOWN).of(Function):
            yield model, function


def is_wrapper(atom: object) -> bool:
    """Whether an object is a DDP or FSDP wrapper."""
    return isinstance(atom, Instance) and atom.type in WRAPPERS


def is_distributed_sampler(atom: object) -> bool:
    """Whether an object is, or derives from, a DistributedSampler of any library."""
    if not isinstance(atom, Instance):
        return False
    names = list(atom.type.library_bases()) if isinstance(atom.type, Class) else [atom.type]
    return any("Distributed" in n and n.endswith("Sampler") for n in names)


def splits(atom: object) -> bool:
    """Whether a DistributedSampler gives each process a part: not with one part in all.

    So does a sampler of the project that takes every n-th number from one that it holds.
    """
    if isinstance(atom, Instance) and isinstance(atom.type, Class) and _takes_every_nth(atom.type):
        return True
    if not isinstance(atom, Instance) or not is_distributed_sampler(atom):
        return False
    parts = atom.arguments.get("num_replicas", atom.arguments.get("1", UNKNOWN))
    return parts.constant() != 1


def _takes_every_nth(kind: Class) -> bool:
    """``indices[self.rank : self.total : self.parts]``, in a class of samplers, not counted."""
    if not any(name.endswith("data.Sampler") for name in kind.library_bases()):
        return False
    counted = {inner for one in walk(kind.node.body) if _counts(one) for inner in walk(one)}
    return any(
        isinstance(one, cst.Slice)
        and isinstance(one.step, cst.Attribute)
        and isinstance(one.lower, cst.Attribute)
        and one not in counted
        for one in walk(kind.node.body)
    )


def _counts(node: cst.CSTNode) -> bool:
    """``len(indices[...])``."""
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Name) and func.value == "len"


def _as_models(run: RunState, wrap: cst.BaseExpression, held: Value) -> Value:
    """What is wrapped, which is a model, whatever made it.

    Where it is not known what it is, it is a model of which nothing else is known.
    """
    objects = list(held.of(Instance))
    for atom in objects:
        if atom.role is None and isinstance(atom.type, str) and atom.type not in CONTAINERS:
            run.reads_change |= not run.is_model(atom)
            atom.role = "model"
    given = argument(wrap, "module", 0) if isinstance(wrap, cst.Call) else None
    if objects or given is None:
        return held
    unseen = run.instance(given.value, run.module, "torch.nn.Module")
    run.facts.models[unseen] = None
    if isinstance(given.value, cst.Name):
        run.bind(given.value.value, value(unseen))
    return value(unseen)


def _wrap(name: str) -> Callable[..., Value]:
    def make(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
        made = run.instance(node, run.module, name)
        made.role = "model"
        given = args[0] if args else kwargs.get("module", UNKNOWN)
        # ``self.model = DDP(self.model)``: the attribute holds both, but it wraps the model alone.
        inner = [atom for atom in given.atoms if atom is not made]
        held = _as_models(run, node, value(*inner))
        made.hold_all({}, {**kwargs, "module": held})
        run.facts.models[made] = None
        for atom in held.of(Instance):
            run.facts.event(atom, "wrap", run.site(node))
        run.facts.event(made, "make", run.site(node))
        return value(made)

    return make


def _fully_shard(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """Shards in place: the model stays the object that it was."""
    held = args[0] if args else kwargs.get("module", UNKNOWN)
    for atom in held.of(Instance):
        run.facts.event(atom, "shard", run.site(node))
    return held


def _spawn(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``mp.spawn(fn, args=...)`` calls ``fn(rank, *args)`` in each process."""
    function = args[0] if args else kwargs.get("fn", UNKNOWN)
    given = args[1] if len(args) > 1 else kwargs.get("args", UNKNOWN)
    extra = [item for tup in given.of(Tup) for item in tup.items]
    if any(isinstance(a, (Function, Bound)) for a in function.atoms):
        run.call(node, function, [REPLICATED, *extra], {})
    return REPLICATED


def _process(name: str) -> Callable[..., Value]:
    """``Process(target=fn, args=...)`` of a script of several ranks calls ``fn(*args)``."""

    def make(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
        function, given = kwargs.get("target", UNKNOWN), kwargs.get("args", UNKNOWN)
        passed = [item for tup in given.of(Tup) for item in tup.items]
        ranks = any(_GROUP_STARTS in file.source.text for file in run.project.files)
        if ranks and any(isinstance(a, (Function, Bound)) for a in function.atoms):
            run.call(node, function, passed, {})
        made = run.instance(node, run.module, name)
        made.hold_all({}, kwargs)
        return value(made)

    return make


def _is_initialized(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    return value(Const(False)) if run.choices.alone else REPLICATED


FUNCTIONS: dict[str, Callable[..., Value]] = {
    IS_INITIALIZED: _is_initialized,
    DDP: _wrap(DDP),
    FSDP: _wrap(FSDP),
    FULLY_SHARD: _fully_shard,
    **dict.fromkeys(SPAWNS, _spawn),
    **{name: _process(name) for name in PROCESSES},
}


def library_names(held: Value | None) -> Iterator[str]:
    """The qualified names of library things that a value may be."""
    for atom in held.atoms if held is not None else ():
        if isinstance(atom, QualifiedName):
            yield ALIASES.get(atom.name, atom.name)
