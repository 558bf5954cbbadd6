"""Where values come from that differ between ranks: labels on the expressions that make them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.libraries.clocks import CLOCKS
from ddpify.understanding.libraries.distributed import METRICS, REDUCING, library_names
from ddpify.understanding.libraries.runtime_names import REDUCTIONS
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import Const, Value

RANK, LOCAL_RANK, SPAWNED, WORLD = "rank", "local rank", "spawned rank", "world size"
GROUP_RANK = "rank in a group of some"
TOLD = "rank told to the group"  # it came from somewhere that is not seen
CLOCK, LENGTH, DEVICES, LOADED = "clock", "length of the data", "device count", "loaded"
LOCAL, TOTAL, SANITIZED, RANDOM = "local", "local total", "clean", "random"
VERSION = "version of torch"
# The same for what came in as an argument: a result made of it counts where the argument does.
GIVEN = {LOCAL: "local argument", TOTAL: "local total argument"}
TAKEN = {given: plain for plain, given in GIVEN.items()}
# Labels that survive any computation; the others pass only through plain ones.
DATA = frozenset({LOCAL, TOTAL, LOADED, *TAKEN})
ANY_RANK = frozenset({RANK, LOCAL_RANK, GROUP_RANK, SPAWNED, TOLD})

_CALLS = {
    "torch.distributed.get_rank": RANK,
    "torch.distributed.get_node_local_rank": LOCAL_RANK,
    "torch.distributed.get_world_size": WORLD,
    "torch.distributed.get_process_group_ranks": RANK,
    "torch.cuda.device_count": DEVICES,
    "torch.accelerator.device_count": DEVICES,
    "ddpify.runtime.rank": RANK,
    "ddpify.runtime.is_main": RANK,
    "ddpify.runtime.local_rank": LOCAL_RANK,
    "ddpify.runtime.world_size": WORLD,
    "horovod.torch.rank": RANK,
    "horovod.torch.local_rank": LOCAL_RANK,
    "horovod.torch.size": WORLD,
    "mpi4py.MPI.COMM_WORLD.Get_rank": RANK,
    "mpi4py.MPI.COMM_WORLD.Get_size": WORLD,
    "torch.load": LOADED,
    **dict.fromkeys(CLOCKS, CLOCK),
    **dict.fromkeys(
        "random.random random.randint random.choice random.choices random.uniform random.sample"
        " random.gauss numpy.random.rand numpy.random.randn numpy.random.randint"
        " numpy.random.choice numpy.random.permutation numpy.random.random numpy.random.uniform"
        " numpy.random.normal torch.rand torch.randn torch.randint torch.randperm torch.normal"
        " torch.rand_like torch.randn_like torch.bernoulli torch.multinomial".split(),
        RANDOM,
    ),
}
_ENVIRONMENT = {
    "RANK": RANK, "SLURM_PROCID": RANK, "OMPI_COMM_WORLD_RANK": RANK, "PMI_RANK": RANK,
    "GLOBAL_RANK": RANK, "LOCAL_RANK": LOCAL_RANK, "SLURM_LOCALID": LOCAL_RANK,
    "OMPI_COMM_WORLD_LOCAL_RANK": LOCAL_RANK, "MPI_LOCALRANKID": LOCAL_RANK,
    "WORLD_SIZE": WORLD, "SLURM_NTASKS": WORLD, "OMPI_COMM_WORLD_SIZE": WORLD,
}  # fmt: skip
_VERSIONS = ("torch.__version__", "torch.version.__version__")
ENVIRONMENT_READERS = ("os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop")
PURE_BUILTINS = frozenset(
    "int bool float min max abs range list tuple round sum any all sorted divmod reversed".split()
)
_PURE = ("math.",)
_LOCAL_RANK_OPTIONS = ("--local_rank", "--local-rank")
_OPAQUE_BUILTINS = frozenset("isinstance hasattr callable type id issubclass len".split())
# Methods of a tensor that give the number which it holds.
KEEPING = frozenset("item tolist int long float bool to cpu cuda detach clone".split())
# Attributes and questions that say nothing about a tensor's values.
SHAPE_LIKE = frozenset(
    "shape device dtype ndim requires_grad is_cuda layout size dim numel nelement keys".split()
)


def draws(name: str) -> bool:
    """Whether a library function draws from a random generator."""
    return _CALLS.get(name) == RANDOM


def call_labels(name: str, arguments: list[Value]) -> Iterator[str]:
    """What the result of a library call is labelled with."""
    if name in _CALLS:
        yield _CALLS[name]
    elif name in ENVIRONMENT_READERS and arguments:
        yield from environment_labels(arguments[0])
    if name.startswith(_VERSIONS):  # ``torch.__version__.split(".")``
        yield VERSION
    known = name in REDUCING or name in REDUCTIONS or name.startswith(METRICS)
    if known or _reduces_by_name(name):
        yield SANITIZED


def library_labels(held: Value) -> Iterator[str]:
    """What a library's constant is labelled with."""
    if any(name.startswith(_VERSIONS) for name in library_names(held)):
        yield VERSION


def of_group(label: str) -> str:
    """What a rank is where it is asked of a group that need not have all ranks."""
    return GROUP_RANK if label == RANK else label


def _reduces_by_name(name: str) -> bool:
    """``all_reduce`` of a module that is not seen: it only silences."""
    return name.rsplit(".", 1)[-1] in ("all_reduce", "all_gather", "allreduce", "allgather")


def environment_labels(key: Value) -> Iterator[str]:
    """What a variable of the environment says.

    Nothing, where it may be the rank as well as the number of ranks: a function reads both.
    """
    found = {
        _ENVIRONMENT[atom.value]
        for atom in key.atoms
        if isinstance(atom, Const) and isinstance(atom.value, str) and atom.value in _ENVIRONMENT
    }
    if WORLD not in found or found == {WORLD}:
        yield from sorted(found)


def declares_local_rank(arguments: list[Value]) -> bool:
    """Whether ``add_argument`` declares the option that torch.distributed.launch passes."""
    return any(a.constant() in _LOCAL_RANK_OPTIONS for a in arguments)


def is_pure(name: str) -> bool:
    """Whether a library function gives back a number that tells the one that it gets.

    Texts do not count: a path with the rank in it is no question about the rank.
    """
    short = name.rsplit(".", 1)[-1]
    if name.startswith("builtins."):
        return short in PURE_BUILTINS
    if name in ("torch.tensor", "torch.as_tensor", "numpy.array", "torch.device"):
        return True
    return name.startswith(_PURE)


def is_silent(name: str) -> bool:
    """Whether a call's result does not tell its arguments."""
    return name.startswith("builtins.") and name.rsplit(".", 1)[-1] in _OPAQUE_BUILTINS


def asks_whether_distributed(node: cst.Comparison) -> bool:
    """``rank != -1``, ``local_rank >= 0``, ``x is None``: the same answer on every rank."""
    if len(node.comparisons) != 1:
        return False
    if asks_for_identity(node):
        return True
    target = node.comparisons[0]
    bounds = {_number(node.left), _number(target.comparator)}
    if -1 in bounds:
        return True
    side = _number(target.comparator)
    return side == 0 and isinstance(target.operator, (cst.GreaterThanEqual, cst.LessThan))


def asks_for_identity(node: cst.Comparison) -> bool:
    """``x is None``: which of the two there is depends on what was asked for, not on numbers."""
    operators = [one.operator for one in node.comparisons]
    return len(operators) == 1 and isinstance(operators[0], (cst.Is, cst.IsNot))


def asks_for_an_entry(node: cst.Comparison) -> bool:
    """``"mask" in batch``: which entries there are is the same on every rank."""
    if not isinstance(node.left, cst.SimpleString):
        return False
    return len(node.comparisons) == 1 and all(
        isinstance(one.operator, (cst.In, cst.NotIn)) and _may_have_entries(one.comparator)
        for one in node.comparisons
    )


def _may_have_entries(node: cst.BaseExpression) -> bool:
    """Not a text that a call makes, but for ``batch.keys()``."""
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Attribute) and node.func.attr.value == "keys"
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))


def _number(node: cst.BaseExpression) -> int | None:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _number(node.expression)
        return None if inner is None else -inner
    return node.evaluated_value if isinstance(node, cst.Integer) else None


def name_of(node: cst.BaseExpression) -> str:
    """Dotted text of a name, for owners of which nothing is known."""
    return dotted(node) or ""
