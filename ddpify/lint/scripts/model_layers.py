"""What rules ask about the layers of models."""

from __future__ import annotations

import re

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.runtime_names import WRAP
from ddpify.understanding.model_structure import batchnorm_in, layers
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.values import Class, Instance

_SYNCHRONISED = (
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.nn.SyncBatchNorm",
    "apex.parallel.convert_syncbn_model",
    WRAP,
)
_TRAINABLE = re.compile(
    r"torch\.nn\.(?:modules\.\w+\.)?(?:Linear|Conv|Embedding|LSTM|GRU|RNN|Batch|Layer|Group|"
    r"Multihead|Transformer|Bilinear|Parameter|PReLU|LazyLinear|LazyConv)"
)


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


def has_parameters_of_its_own(script: Script, layer: Instance) -> bool:
    """``self.scale = nn.Parameter(...)``, in a class of the project, which is trained."""
    return isinstance(layer.type, Class) and any(
        _is_trained_parameter(script, one.value)
        for one in walk(layer.type.node)
        if isinstance(one, cst.Assign) and isinstance(one.targets[0].target, cst.Attribute)
    )


def _is_trained_parameter(script: Script, made: cst.BaseExpression) -> bool:
    if not isinstance(made, cst.Call) or "torch.nn.Parameter" not in script.names(made.func):
        return False
    trained = argument(made, "requires_grad", 1)
    return trained is None or code_of(trained.value) != "False"
