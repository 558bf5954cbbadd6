"""What runs the code of a script, for those who need the value of a part of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.values import Atom, Function, Instance, Namespace, Scope, Value


class Code(ABC):
    """Runs code on abstract values."""

    @abstractmethod
    def module_scope(self, module: ModuleFile) -> Scope:
        """The names that a module defines, after running it."""

    @abstractmethod
    def lookup(self, name: str) -> Value:
        """What a name stands for here."""

    @abstractmethod
    def block(self, body: cst.BaseSuite | cst.Module) -> bool:
        """Run a block; whether its end is reached."""

    @abstractmethod
    def eval(self, node: cst.BaseExpression) -> Value:
        """What an expression may stand for; noted among the facts."""

    @abstractmethod
    def default(self, node: cst.BaseExpression) -> Value:
        """The value of a parameter's default, which is no fact about the call that leaves it."""

    @abstractmethod
    def reduce(self, node: cst.BaseExpression, result: Value) -> Value:
        """The value of an expression that is to be reduced, and a note that it needed it."""

    @abstractmethod
    def call(
        self,
        node: cst.BaseExpression,
        callee: Value,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """Call anything."""

    @abstractmethod
    def call_layer(
        self,
        node: cst.BaseExpression,
        layer: Instance,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """Call the forward of a layer in a container, which the container's own call stands for."""

    @abstractmethod
    def call_forward(
        self, node: cst.BaseExpression, function: Function, args: list[Value]
    ) -> Value:
        """Call a function as a part of a model's forward."""

    @abstractmethod
    def iterate(self, node: cst.BaseExpression, iterable: Value) -> Value:
        """What ``for x in iterable`` binds."""

    @abstractmethod
    def collected(self, node: cst.BaseExpression, iterable: Value) -> Value:
        """What a collection holds that is made of all that an iterable gives."""

    @abstractmethod
    def attribute_of(self, node: cst.BaseExpression, atom: Atom, name: str) -> Value:
        """What ``atom.name`` is."""

    @abstractmethod
    def as_dictionary(self, node: cst.BaseExpression, atom: Instance) -> Value:
        """The attributes of an object that holds something of a batch, by name."""

    @abstractmethod
    def defined_in(self, node: cst.BaseExpression, module: Namespace) -> Instance:
        """The classes and functions that a module of the project has, as a dictionary."""

    @abstractmethod
    def module_named(self, full: str) -> Value:
        """The module of that name: of the project, or of a library."""

    @abstractmethod
    def is_model(self, instance: Instance) -> bool:
        """Whether an object is an ``nn.Module``."""

    @abstractmethod
    def note_set_around(self, name: str, new: Value) -> None:
        """A function has set a name of a function around it, or of the module."""

    @abstractmethod
    def keeps_from_batch(self, container: Instance, node: cst.BaseExpression, new: Value) -> Value:
        """What a container of longer life than the batch takes must be global, or is demanded."""

    def eval_all(self, nodes: Iterable[cst.BaseExpression]) -> list[Value]:
        """The values of several expressions."""
        return [self.eval(node) for node in nodes]
