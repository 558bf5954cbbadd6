"""What models are made of, as far as the script shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.script import Script
from ddpify.understanding.libraries.kinds import is_model
from ddpify.understanding.libraries.runtime_names import WRAP
from ddpify.understanding.structure import walk
from ddpify.understanding.values import Class, Instance, Value, deep_atoms

_BATCHNORM = re.compile(r"torch\.nn\.(?:modules\.batchnorm\.)?(?:Lazy)?BatchNorm[123]d$")
_SYNCHRONISED = (
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.nn.SyncBatchNorm",
    "apex.parallel.convert_syncbn_model",
    WRAP,
)
_ZOO = re.compile(
    r"torchvision\.models\.(?:\w+\.)?(?:(?:wide_)?resn[et]xt?\d*|resnext|densenet|mobilenet|"
    r"shufflenet|mnasnet|efficientnet|googlenet|inception|regnet|vgg\d+_bn|deeplab|fcn|lraspp)"
)

_TRAINABLE = re.compile(
    r"torch\.nn\.(?:modules\.\w+\.)?(?:Linear|Conv|Embedding|LSTM|GRU|RNN|Batch|Layer|Group|"
    r"Multihead|Transformer|Bilinear|Parameter|PReLU|LazyLinear|LazyConv)"
)


def layers(model: Instance) -> Iterator[Instance]:
    """A model and all modules that it holds, each once."""
    seen = {model}
    todo = [model]
    while todo:
        one = todo.pop()
        yield one
        held: list[Value] = [*one.attributes.values()]
        if isinstance(one.type, str):
            held += one.arguments.values()
        for value in held:
            for atom in deep_atoms(value):
                if isinstance(atom, Instance) and atom not in seen:
                    seen.add(atom)
                    if is_model(atom) or atom.type in ("list", "dict", "generator"):
                        todo.append(atom)


def batchnorm_in(model: Instance) -> Instance | None:
    """A BatchNorm layer of a model, or a zoo model that has some."""
    for layer in layers(model):
        if isinstance(layer.type, str) and (_BATCHNORM.match(layer.type) or _ZOO.match(layer.type)):
            return layer
    return None


def has_buffers(model: Instance) -> bool:
    """Whether a model surely has buffers: BatchNorm's, or what its classes register."""
    return batchnorm_in(model) is not None or any(
        isinstance(one, cst.Name) and one.value == "register_buffer"
        for layer in layers(model)
        if isinstance(layer.type, Class)
        for one in walk(layer.type.node)
    )


def synchronises_batchnorm(script: Script) -> bool:
    """Whether the script makes BatchNorm layers take their statistics over all ranks."""
    return script.uses(*_SYNCHRONISED)


def is_part_of(part: Instance, model: Instance) -> bool:
    """Whether a module is, or belongs to, a model."""
    return any(layer is part for layer in layers(model))


def has_parameters(script: Script, model: Instance) -> bool:
    """Whether a module is known to have parameters of its own."""
    return any(map(is_trainable, layers(model)))


def is_trainable(layer: Instance) -> bool:
    """Whether a layer is one of PyTorch's that have parameters."""
    return isinstance(layer.type, str) and (
        layer.type.startswith("torchvision.models.") or _TRAINABLE.match(layer.type) is not None
    )
