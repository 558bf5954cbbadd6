"""The abstract values that the interpreter computes: what a name may stand for.

A :class:`Value` is a set of atoms, since a name can stand for different things on different
paths. Objects with state (instances, lists, dictionaries) are one atom for each place in the code
that makes them.
"""

from ddpify.understanding.values.atoms import Atom, Const, Device, QualifiedName
from ddpify.understanding.values.lattice import (
    UNKNOWN,
    Tup,
    Value,
    deep_atoms,
    join,
    library_value,
    value,
    without_views,
)
from ddpify.understanding.values.objects import (
    ANY_NAME,
    CHANGED,
    CONTAINERS,
    REPLICATED,
    Bound,
    Instance,
    Method,
    Number,
    Params,
    Super,
    either,
    may_be_integer,
)
from ddpify.understanding.values.scopes import Class, Function, Namespace, Scope
from ddpify.understanding.values.tensors import NO_ROWS, Data, ReplicatedTensor

__all__ = [
    "ANY_NAME",
    "CHANGED",
    "CONTAINERS",
    "NO_ROWS",
    "REPLICATED",
    "UNKNOWN",
    "Atom",
    "Bound",
    "Class",
    "Const",
    "Data",
    "Device",
    "Function",
    "Instance",
    "Method",
    "Namespace",
    "Number",
    "Params",
    "QualifiedName",
    "ReplicatedTensor",
    "Scope",
    "Super",
    "Tup",
    "Value",
    "deep_atoms",
    "either",
    "join",
    "library_value",
    "may_be_integer",
    "value",
    "without_views",
]
