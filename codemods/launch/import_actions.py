"""What modules of the project print and draw as they are imported, which each rank would do.

Layers draw their weights: of one that is not trained, nobody else hands out rank 0's.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.syntax import is_main_guard
from ddpify.understanding.taint.sources import draws
from ddpify.understanding.values import UNKNOWN, Bound, Class, Function, Value

_SHOWING = frozenset({"builtins.print", "pprint.pprint"})
_GENERATORS = ("random.", "numpy.random.")
_SETTING_UP = frozenset(
    "seed getstate setstate get_state set_state Random RandomState Generator default_rng"
    " SeedSequence".split()
)
_LAYERS = frozenset(
    "Linear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding"
    " EmbeddingBag RNN LSTM GRU RNNCell LSTMCell GRUCell MultiheadAttention Transformer"
    " TransformerEncoderLayer TransformerDecoderLayer".split()
)
_MAKING_WEIGHTS = ("torch.nn.init.", "torchvision.models.")
_LATER = (cst.FunctionDef, cst.Lambda)


def acts(plan: Plan, module: ModuleFile) -> bool:
    """Whether importing a module prints something, or draws from a random generator."""
    seen: set[cst.CSTNode] = set()
    return any(_acts(plan, call, seen) for call in _calls(module.tree))


def _acts(plan: Plan, call: cst.Call, seen: set[cst.CSTNode]) -> bool:
    called = plan.facts.values.get(call.func, UNKNOWN)
    if any(name in _SHOWING or _draws(name) for name in library_names(called)):
        return True
    for body in _bodies(called):
        if body not in seen:
            seen.add(body)
            if any(_acts(plan, inner, seen) for inner in _calls(body)):
                return True
    return False


def _bodies(called: Value) -> Iterator[cst.CSTNode]:
    """What of the project's code a call runs."""
    for atom in called.atoms:
        if isinstance(atom, Function):
            yield atom.node.body
        elif isinstance(atom, Bound):
            yield atom.function.node.body
        elif isinstance(atom, Class):
            yield from _bodies(atom.find("__init__") or UNKNOWN)


def _draws(name: str) -> bool:
    module, _, last = name.rpartition(".")
    of_layer = (module == "torch.nn" and last in _LAYERS) or name.startswith(_MAKING_WEIGHTS)
    of_generator = name.startswith(_GENERATORS) and last not in _SETTING_UP
    return of_layer or of_generator or draws(name)


def _calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls that running this makes, but for those of functions that it defines."""
    if isinstance(node, _LATER) or (isinstance(node, cst.If) and is_main_guard(node.test)):
        return
    if isinstance(node, cst.Call):
        yield node
    for child in node.children:
        yield from _calls(child)
