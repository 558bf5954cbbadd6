"""Files that ``torch.load`` reads a model from: its state, or the whole of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.labels.flow import Flow
from ddpify.understanding.labels.slots import Slot
from ddpify.understanding.project import ModuleFile

_TAKES_STATE = "load_state_dict"
_OF_MODELS = ("eval", "train", "parameters", "state_dict")
_SAME_OBJECT = ("to", "cuda", "cpu", "eval", "train", "float", "half")


class Checkpoints:
    """The loads of one project; data and vocabularies are none of them."""

    def __init__(self, facts: Facts, flow: Flow) -> None:
        self.facts = facts
        self.flow = flow

    def is_state(self, load: cst.Call, module: ModuleFile) -> bool:
        """Whether what is loaded goes, at once or by a name, into ``load_state_dict``."""
        for above in module.structure.up(load):
            if isinstance(above, cst.Call) and _method(above) == _TAKES_STATE:
                return True
            if isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Tuple):
                return False  # data, _ = torch.load(f)
            if isinstance(above, (cst.Assign, cst.AnnAssign, cst.Return)):
                return any(self._states & {*move.targets} for move in self.flow.moves_at(above))
            if isinstance(above, cst.BaseStatement):
                break
        return False

    def is_model(self, load: cst.Call, module: ModuleFile) -> bool:
        """Whether a load gives a model itself, which is called or asked for its parameters."""
        for above in module.structure.up(load):
            if isinstance(above, cst.Assign):
                given = _same_object(above.value) is load
                return given and any(self._models & {*m.targets} for m in self.flow.moves_at(above))
            if isinstance(above, cst.BaseStatement):
                break
        return False

    @cached_property
    def _states(self) -> set[Slot]:
        """Names from which a ``load_state_dict`` gets its state."""
        todo = [
            slot
            for call, module in self._calls(_TAKES_STATE)
            for given in call.args
            for slot in self.flow.slots(given.value, module)
        ]
        found = set(todo)
        while todo:
            sources = (move.source for move in self.flow.moves_to({todo.pop()}))
            fresh = {d.slot for source in sources for d in source if d.slot is not None} - found
            found |= fresh
            todo += fresh
        return found

    @cached_property
    def _models(self) -> set[Slot]:
        """Names of which something is asked that only a model answers."""
        return {
            slot
            for call, module in self._calls(*_OF_MODELS)
            for slot in self.flow.slots(call.func.value, module)  # type: ignore[attr-defined]
        }

    def _calls(self, *methods: str) -> Iterator[tuple[cst.Call, ModuleFile]]:
        for module, structure in self.flow.structures.items():
            for call in structure.all(cst.Call):
                if _method(call) in methods:
                    yield call, module


def _method(call: cst.Call) -> str | None:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else None


def _same_object(node: cst.BaseExpression) -> cst.BaseExpression:
    """The object that ``x.to(device).eval()`` and the like give back."""
    while (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and _method(node) in _SAME_OBJECT
    ):
        node = node.func.value
    return node
