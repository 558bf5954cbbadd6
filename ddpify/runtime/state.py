"""The state of a script's objects as plain data that ``torch.load(weights_only=True)`` reads.

Numbers, strings, None and tensors stand for themselves, everything else for a tuple of a kind and
its content. Restoring goes into the objects that the restarted script has made anew, so that every
reference to them stays.
"""

import argparse
import array
import contextlib
import enum
import random
import sys
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, cast

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from ddpify.runtime.adoption import divide_states
from ddpify.runtime.dtensor import is_dtensor, like_shard
from ddpify.runtime.process import is_main, world
from ddpify.runtime.rebuilt import (
    NAMED,
    is_known_by_identity,
    name_of,
    read_byte_array,
    read_member,
    read_named,
    read_numbers,
    slot_attributes,
)

_PLAIN = (type(None), bool, int, float, str)
_LEFT_OUT = (DataLoader, Dataset)
_WRAPPING = ("torch.nn.parallel.", "torch.distributed.", "torch.optim.")
_gathering = True
_left_out: dict[str, str] = {}
_entered: dict[str, "weakref.ref[Any]"] = {}


def arrays_in(value: Any, name: str) -> dict[str, "weakref.ref[Any]"]:
    """The tensors and arrays in containers and objects of the script, by the paths to them.

    Given back to ``changed_in_place()``, they tell what still is the same object, changed in
    place, from what has been replaced by another.
    """
    found: dict[str, weakref.ref[Any]] = {}
    seen: set[int] = set()
    waiting = [(name, value)]
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, torch.Tensor) or _is_ndarray_of_numpy(one):
            found[path] = weakref.ref(one)
        elif id(one) not in seen:
            seen.add(id(one))
            waiting.extend(_parts(path, one))
    return found


def _parts(path: str, one: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(one, list | tuple | deque):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(one))
    elif isinstance(one, dict):
        yield from ((f"{path}[{key!r}]", item) for key, item in one.items())
    elif _is_plain_object(one):
        yield from ((f"{path}.{key}", item) for key, item in _held(one))


@contextlib.contextmanager
def changed_in_place(entered: dict[str, "weakref.ref[Any]"]) -> Iterator[None]:
    """Inside, encode() marks the tensors and arrays that a restart is to bring back in place."""
    global _entered
    before, _entered = _entered, entered
    try:
        yield
    finally:
        _entered = before


def _stays(value: Any, name: str) -> bool:
    known = _entered.get(name)
    return known is not None and known() is value


@contextlib.contextmanager
def forms_alone() -> Iterator[None]:
    """Inside, encode() finds out what has a plain form, without communication."""
    global _gathering
    before, _gathering = _gathering, False
    try:
        yield
    finally:
        _gathering = before


class CannotStore(TypeError):
    """A value has no plain form; the message names it."""


def encode(value: Any, name: str = "value") -> Any:
    """The plain form of a value; a collective where it holds sharded tensors, whole on rank 0.

    Raises CannotStore, with ``name`` and the path to the part concerned.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        # What is sharded is cut on the CPU: no device need have room for all of it.
        place = "cpu" if is_dtensor(value) else value.device.type
        return "tensor", _full(value), place, _stays(value, name)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return "named tuple", _encode_named_tuple(value, name)
    for kind, types, form in _FORMS:
        if isinstance(value, types):
            return kind, form(value, name)
    if isinstance(value, NAMED) and (known := name_of(value)):
        return "named", list(known)
    if "numpy" in sys.modules:
        found = _encode_numpy(value, name)
        if found is not None:
            return found
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return "stateful", encode(value.state_dict(), f"{name}.state_dict()")
    if _is_plain_object(value):
        held, whole = _attributes(value, name)
        return "object", [held, name_of(type(value)) if whole else None]
    raise CannotStore(
        f"{name} is a {type(value).__module__}.{type(value).__qualname__}, which has no plain form"
    )


def restore(code: Any, into: Any, name: str = "value") -> Any:
    """Bring an object into a stored state, in place where it can be; returns the restored value.

    ``into`` is what the restarted script has in its place, of any type where that is replaced.
    Raises RuntimeError where an object is to be restored that the script has not made.
    """
    if isinstance(into, torch.Tensor) and isinstance(code, tuple) and code[0] == "tensor":
        with torch.no_grad():
            return into.copy_(code[1])
    return _decode(code, into, name)


def _decode(code: Any, into: Any, name: str) -> Any:
    if not isinstance(code, tuple):
        return code
    kind, content, *rest = code
    if kind == "tensor":
        if is_dtensor(into) and into.shape == content.shape:
            return like_shard(content, into)
        if rest[1:] == [True] and _fits(into, content):
            with torch.no_grad():
                return into.copy_(content)
        return content if rest[0] == "cpu" else content.to(world().device)
    return _RESTORERS[kind](content, into, name)


def _fits(into: Any, content: torch.Tensor) -> bool:
    same = isinstance(into, torch.Tensor) and not is_dtensor(into)
    return same and into.shape == content.shape and into.dtype == content.dtype


def _is_ndarray_of_numpy(value: Any) -> bool:
    return "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].ndarray)


def _is_plain_object(value: Any) -> bool:
    """Whether an object is what its attributes are: of the script's class, or a namespace."""
    kind = type(value)
    if isinstance(value, nn.Module | type | FunctionType | ModuleType | enum.Enum):
        return False
    if isinstance(value, argparse.Namespace | SimpleNamespace):
        return True
    return _is_script_class(kind) and (hasattr(value, "__dict__") or hasattr(kind, "__slots__"))


def _held(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, with their names."""
    yield from getattr(value, "__dict__", {}).items()
    yield from slot_attributes(value)


def _is_script_class(kind: type) -> bool:
    """Whether a class is of the script or its project, not of a library."""
    module = sys.modules.get(kind.__module__)
    path = getattr(module, "__file__", None) or ""
    if kind.__module__ == "__main__":
        return True
    installed = "site-packages" in path or "dist-packages" in path
    return bool(path) and not installed and kind.__module__ not in sys.stdlib_module_names


def _full(tensor: Any) -> torch.Tensor:
    """A tensor's values: of one in parts, on rank 0 and on the CPU, elsewhere nothing."""
    if not is_dtensor(tensor):
        plain: torch.Tensor = tensor.detach()
        return plain
    whole = cast(Any, tensor.detach()).full_tensor() if _gathering else torch.empty(0)
    return whole.cpu() if is_main() else torch.empty(0)


# ------------------------------------------------------------------ containers
def _encode_items(value: Any, name: str) -> list[Any]:
    return [encode(item, f"{name}[{index}]") for index, item in enumerate(value)]


def _encode_dict(value: dict[Any, Any], name: str) -> list[Any]:
    return [
        (_encode_key(key, at, f"{name}'s key"), encode(item, f"{name}[{key!r}]"))
        for at, (key, item) in enumerate(value.items())
    ]


def _encode_key(key: Any, at: int, name: str) -> Any:
    """A key; of a parameter, a module or another object its place among the keys."""
    by_identity = isinstance(key, torch.Tensor) or is_known_by_identity(key)
    if by_identity and not isinstance(key, NAMED):
        return "key", at
    return encode(key, name)


def _read_list(content: list[Any], into: Any, name: str) -> Any:
    old = list(into) if isinstance(into, list | deque) else []
    found = [
        _decode(code, old[index] if index < len(old) else None, f"{name}[{index}]")
        for index, code in enumerate(content)
    ]
    return _refilled(into, found, list)


def _read_tuple(content: list[Any], into: Any, name: str) -> Any:
    old = into if isinstance(into, tuple) and len(into) == len(content) else [None] * len(content)
    return tuple(
        _decode(code, item, f"{name}[{index}]")
        for index, (code, item) in enumerate(zip(content, old, strict=True))
    )


def _encode_named_tuple(value: Any, name: str) -> list[Any]:
    return [name_of(type(value)), _encode_items(value, name)]


def _read_named_tuple(content: list[Any], into: Any, name: str) -> Any:
    known, items = content
    kind: Any = type(into) if hasattr(into, "_make") else read_named(known, None, name)
    return kind._make(_read_tuple(items, into, name))


def _read_dict(content: list[Any], into: Any, name: str) -> Any:
    old = dict(into) if isinstance(into, dict) else {}
    keys, found = list(old), {}
    for key_code, code in content:
        key = _decode(key_code, keys, name)
        if key not in old and isinstance(into, defaultdict) and into.default_factory:
            old[key] = into.default_factory()  # a container in it is of the same kind
        found[key] = _decode(code, old.get(key), f"{name}[{key!r}]")
    return _refilled(into, found, dict)


def _read_key(place: int, keys: Any, name: str) -> Any:
    if not isinstance(keys, list) or place >= len(keys):
        raise _not_made(f"{name}'s key")
    return keys[place]


def _refilled(into: Any, content: Any, kind: Any) -> Any:
    """The old container with new content, or the content where there is none to fill."""
    if not isinstance(into, (list, deque) if kind is list else kind):
        return content
    fill = getattr(into, "extend" if kind is list else "update")
    into.clear()
    fill(content)
    return into


def _read_set(content: list[Any], into: Any, name: str) -> Any:
    return _refilled(into, {_decode(code, None, name) for code in content}, set)


def _read_deque(content: list[Any], into: Any, name: str) -> Any:
    length, items = content
    return _read_list(items, deque(maxlen=length) if into is None else into, name)


# ------------------------------------------------------------------ modules and other objects
def _encode_module(module: nn.Module, name: str) -> dict[str, Any]:
    """Beside the state dict: gradients under accumulation, what is trained or frozen, buffers that
    it leaves out, and numbers and containers that layers keep."""
    grads = {key: p.grad for key, p in module.named_parameters() if p.grad is not None}
    kept = {(path, key): held for path, key, held in _attributes_of_layers(module)}
    return {
        "state": encode(dict(module.state_dict()), f"{name}.state_dict()"),
        "gradients": {key: _full(grad) for key, grad in grads.items()},
        "trained": {key: p.requires_grad for key, p in module.named_parameters()},
        "training": [layer.training for layer in module.modules()],
        "buffers": {key: _full(held) for key, held in _left_out_buffers(module)},
        "attributes": [(*at, encode(held, f"{name}.{'.'.join(at)}")) for at, held in kept.items()],
    }


def _left_out_buffers(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    in_state = module.state_dict().keys()
    yield from ((key, held) for key, held in module.named_buffers() if key not in in_state)


def _attributes_of_layers(module: nn.Module) -> Iterator[tuple[str, str, Any]]:
    """Numbers of all layers, and of the script's own layers what else has a plain form."""
    for path, layer in module.named_modules():
        if type(layer).__module__.startswith(_WRAPPING):
            continue
        own = _is_script_class(type(layer))
        for key, held in vars(layer).items():
            if key.startswith("_") or key == "training" or isinstance(held, torch.nn.Module):
                continue
            number = isinstance(held, bool | int | float)
            if number or (own and not isinstance(held, _LEFT_OUT) and _has_form(held)):
                yield path, key, held


def _has_form(value: Any) -> bool:
    try:
        with forms_alone():
            encode(value)
    except (CannotStore, RecursionError):
        return False
    return True


def _read_module(content: dict[str, Any], into: Any, name: str) -> Any:
    _expect(into, nn.Module, name)
    into.load_state_dict(_decode(content["state"], None, name))
    for key, parameter in into.named_parameters():
        parameter.requires_grad_(content["trained"][key])
        grad = content["gradients"].get(key)
        parameter.grad = None if grad is None else _gradient(grad, parameter)
    for layer, training in zip(into.modules(), content["training"], strict=True):
        layer.training = training
    buffers, layers = dict(into.named_buffers()), dict(into.named_modules())
    for key, held in content["buffers"].items():
        buffers[key].copy_(held)
    for path, key, code in content["attributes"]:
        held = layers[path].__dict__
        held[key] = _decode(code, held.get(key), f"{name}.{path}.{key}")
    return into


def _gradient(whole: torch.Tensor, parameter: Any) -> torch.Tensor:
    if is_dtensor(parameter):
        return like_shard(whole, parameter)
    return whole.to(parameter.device, copy=True)


def _read_stateful(content: Any, into: Any, name: str) -> Any:
    if not hasattr(into, "load_state_dict"):
        raise _not_made(name)
    state = _decode(content, None, name)
    if isinstance(into, torch.optim.Optimizer):
        divide_states(into, state)
    into.load_state_dict(state)
    return into


def _attributes(value: Any, name: str) -> tuple[dict[str, Any], bool]:
    """What an object of the script's own class holds, except what has no plain form; and whether
    that is all."""
    found: dict[str, Any] = {}
    whole = True
    for key, held in _held(value):
        try:
            if held is value or isinstance(held, _LEFT_OUT):
                raise CannotStore(name)
            found[key] = encode(held, f"{name}.{key}")
        except (CannotStore, RecursionError):
            whole = False
            if held is not value and not isinstance(held, _LEFT_OUT):
                _left_out.setdefault(f"{type(value).__qualname__}.{key}", type(held).__qualname__)
    return found, whole


def take_left_out() -> list[str]:
    """The attributes that encode() has left out so far, as in ``Trainer.writer (SummaryWriter)``.

    Each is given once; sets of data and loaders, which are restored in another way, are not.
    """
    new = [f"{name} ({kind})" for name, kind in _left_out.items() if kind]
    _left_out.update(dict.fromkeys(_left_out, ""))
    return new


def _read_object(content: list[Any], into: Any, name: str) -> Any:
    attributes, known = content
    if not _is_plain_object(into):
        into = _new(known, name)
    for key, code in attributes.items():
        held = _decode(code, getattr(into, key, None), f"{name}.{key}")
        object.__setattr__(into, key, held)
    return into


def _new(known: Any, name: str) -> Any:
    """An empty object, of a class that its module holds, where a round made the first one."""
    if known is None:
        raise _not_made(name)
    kind = read_named(known, None, name)
    if not isinstance(kind, type) or not _is_script_class(kind):
        raise _not_made(name)
    return object.__new__(kind)


def _expect(into: Any, kind: type, name: str) -> None:
    if not isinstance(into, kind):
        raise _not_made(name)


def _not_made(name: str) -> RuntimeError:
    return RuntimeError(
        f"the snapshot holds the state of {name}, which the restarted script has not made when it "
        "comes to this loop; make it before the loop, or remove the snapshots to start anew"
    )


# ------------------------------------------------------------------ random generators and NumPy
def _read_generator(content: Any, into: Any, name: str) -> Any:
    _expect(into, torch.Generator, name)
    into.set_state(content)
    return into


def _read_random(content: Any, into: Any, name: str) -> Any:
    _expect(into, random.Random, name)
    into.setstate(_decode(content, None, name))
    return into


def _encode_numpy(value: Any, name: str) -> Any:
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.ndarray | numpy.generic) and value.dtype.kind in "biufc":
        array = numpy.ascontiguousarray(value)
        data = torch.from_numpy(array.reshape(-1).view("uint8").copy())
        stays = isinstance(value, numpy.ndarray) and _stays(value, name)
        is_array = isinstance(value, numpy.ndarray)
        return "array", (data, value.dtype.str, list(value.shape), is_array, stays)
    if isinstance(value, numpy.random.Generator):
        return "numpy generator", encode(value.bit_generator.state, name)
    if isinstance(value, numpy.random.RandomState):
        return "numpy random state", encode(value.get_state(), name)
    return None


def _read_array(content: Any, into: Any, _: str) -> Any:
    import numpy

    data, dtype, shape, is_array, stays = content
    array = numpy.frombuffer(data.numpy().tobytes(), dtype).reshape(shape).copy()
    if (
        stays
        and _is_ndarray_of_numpy(into)
        and (into.shape, into.dtype) == (array.shape, array.dtype)
    ):
        into[...] = array
        return into
    return array if is_array or shape else array[()]


def _read_numpy_generator(content: Any, into: Any, name: str) -> Any:
    into.bit_generator.state = _decode(content, None, name)
    return into


def _read_numpy_random_state(content: Any, into: Any, name: str) -> Any:
    into.set_state(_decode(content, None, name))
    return into


Form = Callable[[Any, str], Any]
_FORMS: tuple[tuple[str, Any, Form], ...] = (
    ("module", nn.Module, _encode_module),
    ("tuple", tuple, _encode_items),
    ("list", list, _encode_items),
    ("dict", dict, _encode_dict),
    ("set", set, _encode_items),
    ("frozen set", frozenset, _encode_items),
    ("member", enum.Enum, lambda value, _: value.name),
    ("numbers", array.array, lambda value, _: [value.typecode, value.tolist()]),
    ("byte array", bytearray, lambda value, _: list(value)),
    ("deque", deque, lambda value, name: [value.maxlen, _encode_items(value, name)]),
    ("bytes", bytes, lambda value, _: list(value)),
    ("complex", complex, lambda value, _: [value.real, value.imag]),
    ("device", torch.device, lambda value, _: str(value)),
    ("generator", torch.Generator, lambda value, _: value.get_state()),
    ("random", random.Random, lambda value, name: encode(value.getstate(), name)),
)
_RESTORERS: dict[str, Callable[[Any, Any, str], Any]] = {
    "module": _read_module,
    "tuple": _read_tuple,
    "named tuple": _read_named_tuple,
    "list": _read_list,
    "dict": _read_dict,
    "set": _read_set,
    "frozen set": lambda content, _, name: frozenset(_decode(c, None, name) for c in content),
    "key": _read_key,
    "member": read_member,
    "named": read_named,
    "numbers": read_numbers,
    "byte array": read_byte_array,
    "deque": _read_deque,
    "bytes": lambda content, *_: bytes(content),
    "complex": lambda content, *_: complex(*content),
    "device": lambda content, *_: torch.device(content),
    "generator": _read_generator,
    "random": _read_random,
    "array": _read_array,
    "numpy generator": _read_numpy_generator,
    "numpy random state": _read_numpy_random_state,
    "stateful": _read_stateful,
    "object": _read_object,
}
