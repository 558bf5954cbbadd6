"""The objects and functions of a run, one for each place and way that makes them."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager

import libcst as cst

from ddpify.understanding.contexts import into_forward
from ddpify.understanding.frames import Frame
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.run_state.state import State
from ddpify.understanding.run_state.written import Place, Written
from ddpify.understanding.syntax import parameters
from ddpify.understanding.values import CONTAINERS, Class, Function, Instance, Value, join

_IN_TURN = (*CONTAINERS, "torch.utils.data.DataLoader")
_LITERALS = (cst.BaseNumber, cst.BaseString)


class Objects(State):
    """Makes the objects of a run, and writes into them."""

    def instance(self, node: cst.CSTNode, module: ModuleFile, kind: Class | str) -> Instance:
        """The object made at a place, one for each way of the last few calls that lead there."""
        callers = self._contexts.last_calls(self.frames)
        if kind in _IN_TURN:  # a model is one for all of these rounds
            callers = (*callers, *self.items_in_turn)
        # Classes may share their name; what a trial makes is not what the code itself makes.
        known = (kind if isinstance(kind, str) else kind.node, self.tried is not None)
        key = (node, callers, known)
        if key not in self.heap and self._contexts.are_too_many(node):
            key = (node, into_forward(self.frames), known)
        if key not in self.heap:
            maker = self.frames[-1].receiver if self.frames else None
            self.heap[key] = Instance(node, module, kind, maker=maker, calls=key[1])
            for one in self.rounds:
                one.made.add(self.heap[key])
            kept = any(frame.kept for frame in self.frames)
            loops = (loop for frame in self.frames for loop in frame.loops if loop.taken)
            self.made_in[self.heap[key]] = frozenset(() if kept else (one.node for one in loops))
        return self.heap[key]

    def of_tensors(self) -> Instance:
        """What holds the attributes that the program sets on tensors, whichever these are."""
        entry = self.project.entry
        key = (entry.tree, (), ("attributes of tensors", False))
        if key not in self.heap:
            self.heap[key] = Instance(entry.tree, entry, "types.SimpleNamespace")
            self.made_in[self.heap[key]] = frozenset()
        return self.heap[key]

    def only_instance(self, made: Class) -> Instance:
        """The object of a class that may give an earlier one again, wherever it is asked for."""
        with self.running_in(Frame(made.module, made.scope, kept=True)):
            return self.instance(made.node, made.module, made)

    def function(self, node: cst.FunctionDef | cst.Lambda) -> Function:
        """The function made at a place, one for each way of the last few calls that lead there.

        Where it is made again on the same way, as in a loop, it stands for all that are made.
        """
        key = (node, self._contexts.last_calls(self.frames))
        if key not in self.functions and self._contexts.are_too_many(node):
            key = (node, into_forward(self.frames))
        scope = self.frame.scope
        made = self.functions.setdefault(key, Function(node, self.module, scope))
        again = made in self.defined
        if again and made.scope is not scope:
            scope.alike = (*made.scope.alike, made.scope)
        for name, default in self._computed_defaults(node).items():
            made.defaults[name] = join(made.defaults[name], default) if again else default
        made.scope = scope
        self.defined.add(made)
        return made

    def _computed_defaults(self, node: cst.FunctionDef | cst.Lambda) -> dict[str, Value]:
        """Defaults that are no literals: Python computes them once, where the function is made."""
        given = parameters(node)
        return {
            one.name.value: self.default(one.default)
            for one in given
            if one.default is not None and not isinstance(one.default, _LITERALS)
        }

    def put(self, target: Instance, name: str, new: Value) -> None:
        """Let an attribute or element of an object be this too."""
        if self.tried is not None:
            self.tried_writes.append((target, name, target.attribute(name)))
        self.note_written({(target, name)})
        self.changes(target, name)
        self.reads_change |= target.put(name, new)
        if isinstance(target.type, Class):
            self._forget_set(target, name)
            self._forget_named(target, name)

    def _forget_named(self, target: Instance, name: str) -> None:
        """What a name's attribute was set to is no longer known: of an object, or of any of them.

        An attribute whose name is put together, as ``stage*``, may be each.
        """
        if not self.frame.tells and self.frame.receiver is not target:
            return
        names, ending = self.frame.scope.names, f".{name}"
        for one in [n for n in names if "." in n and (n.endswith(ending) or "*" in name)]:
            del names[one]

    def note_written(self, places: Set[Place]) -> None:
        """These hold what was written since the last batch came."""
        self.written.add(places)
        if self.writing:
            self.writing[-1].add(places)

    @contextmanager
    def noting_writes(self, key: object) -> Iterator[None]:
        """Inside, a body runs: where its result is taken again, it has written the same."""
        self.writing.append(Written())
        try:
            yield
        finally:
            self.wrote[key] = self.writing.pop().places
            self.note_written(self.wrote[key])

    def _forget_set(self, target: Instance, name: str) -> None:
        """Let its methods that are in progress read an attribute of an object anew."""
        for frame in self.frames:
            if frame.receiver is not target:
                continue
            for key in [one for one in frame.scope.names if "." in one]:
                if name.endswith("*") or key.endswith(f".{name}"):
                    del frame.scope.names[key]

    def changes(self, owner: Instance, name: str = "") -> None:
        """The round of a sample may change an attribute of an object, or what a container holds."""
        place = owner if owner.type in CONTAINERS else (owner, name)
        for one in self.rounds:
            if owner not in one.made:
                self.reads_change |= one.note(one.changed, place)

    def undo_tried(self) -> None:
        """Let objects hold what they held before a trial that shows nothing of the real run."""
        for target, name, before in reversed(self.tried_writes):
            target.take_back(name, before)

    def give(self, target: Instance, name: str, new: Value) -> None:
        """Let an argument that an object was made with be this too."""
        self.reads_change |= target.give(name, new)
