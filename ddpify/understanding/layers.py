"""What models are made of, as far as the script shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpify.understanding.libraries.kinds import is_model
from ddpify.understanding.values import Instance, Value, deep_atoms

_BATCHNORM = re.compile(r"torch\.nn\.(?:modules\.batchnorm\.)?(?:Lazy)?BatchNorm[123]d$")
_ZOO = re.compile(
    r"torchvision\.models\.(?:\w+\.)?(?:(?:wide_)?resn[et]xt?\d*|resnext|densenet|mobilenet|"
    r"shufflenet|mnasnet|efficientnet|googlenet|inception|regnet|vgg\d+_bn|deeplab|fcn|lraspp)"
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
