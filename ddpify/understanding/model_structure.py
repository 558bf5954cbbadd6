"""What models are made of, as far as the script shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.values import Instance, Value, deep_atoms

_BATCHNORM = re.compile(r"torch\.nn\.(?:modules\.batchnorm\.)?(?:Lazy)?BatchNorm[123]d$")
# Libraries' networks that have batch normalisation, and those that have none.
_WITH = re.compile(
    r"torchvision\.models\.(?:\w+\.)?(?:(?:wide_)?res(?:net|next)|densenet|mobilenet|"
    r"shufflenet|mnasnet|efficientnet|googlenet|inception|regnet|vgg\d+_bn|deeplab|fcn|lraspp)"
)

_WITHOUT = re.compile(r"\.(?:alexnet|vgg(?!\w*_bn$)|squeezenet|vit_|swin_|convnext_)\w*$")


def layers(model: Instance) -> Iterator[Instance]:
    """A model and all modules that it holds, each once."""
    seen, opened = {model}, set[int]()
    todo = [model]
    while todo:
        one = todo.pop()
        yield one
        held: list[Value] = [*one.attributes.values()]
        if isinstance(one.type, str):
            held += one.arguments.values()
        for value in held:
            for atom in deep_atoms(value, opened):
                if isinstance(atom, Instance) and atom not in seen:
                    seen.add(atom)
                    if is_model(atom) or atom.type in ("list", "dict", "generator"):
                        todo.append(atom)


def batchnorm_in(model: Instance) -> Instance | None:
    """A BatchNorm layer of a model, or a library's network that has some."""
    return next(batchnorms_in(model), None)


def batchnorms_in(model: Instance) -> Iterator[Instance]:
    """The same, all of them."""
    return filter(_has_batchnorm, layers(model))


def may_have_batchnorm(model: Instance) -> bool:
    """Whether a model has batch normalisation, or a library's network that may have some."""
    return any(_has_batchnorm(layer) or _is_unseen(layer) for layer in layers(model))


def is_batchnorm(layer: Instance) -> bool:
    """Whether a model is a BatchNorm layer itself."""
    names = [layer.type] if isinstance(layer.type, str) else layer.type.library_bases()
    return any(_BATCHNORM.match(name) for name in names)


def _has_batchnorm(layer: Instance) -> bool:
    return is_batchnorm(layer) or (isinstance(layer.type, str) and bool(_WITH.match(layer.type)))


def _is_unseen(layer: Instance) -> bool:
    """Whether it is a network of which neither the layers nor the name are known."""
    name = layer.type
    if not isinstance(name, str) or not is_model(layer):
        return False
    if name.startswith(("torch.nn.", "torch.optim.")):  # an average's layers are those of its copy
        return False
    return _WITHOUT.search(name) is None
