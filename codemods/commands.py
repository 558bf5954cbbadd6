"""The codemods as LibCST commands, for ``python -m libcst.tool codemod``."""

from __future__ import annotations

from typing import ClassVar

from ddpify.codemods._command import Command
from ddpify.codemods.data import loaders
from ddpify.codemods.devices import devices
from ddpify.codemods.files import rank0_files
from ddpify.codemods.launch import process_group
from ddpify.codemods.models import models, spread_forwards
from ddpify.codemods.pipeline import CODEMODS
from ddpify.codemods.random import shared_draws
from ddpify.codemods.synchronisation import command_results, gradients, reductions


class ConvertToTorchrun(Command):  # type: ignore[misc]
    """Everything that ``ddpify convert`` does to a script, in place."""

    DESCRIPTION: ClassVar[str] = "Rewrite a single-GPU PyTorch training script for torchrun."
    EDITS = CODEMODS


class UseRankDevice(Command):  # type: ignore[misc]
    """Hard-coded accelerators become the device of the rank."""

    DESCRIPTION: ClassVar[str] = "Replace hard-coded accelerators by the device of the rank."
    EDITS = (devices.edit, process_group.edit)


class ShardLoaders(Command):  # type: ignore[misc]
    """Loaders give each rank its slice of the global batch."""

    DESCRIPTION: ClassVar[str] = "Split each global batch of the training loaders among the ranks."
    EDITS = (loaders.edit, process_group.edit)


class WrapModels(Command):  # type: ignore[misc]
    """Trained models are wrapped in DistributedDataParallel."""

    DESCRIPTION: ClassVar[str] = "Wrap each trained model in DistributedDataParallel."
    EDITS = (models.edit, process_group.edit)


class ReduceValues(Command):  # type: ignore[misc]
    """Losses, metrics and counts become global where they are first read."""

    DESCRIPTION: ClassVar[str] = "Reduce losses, metrics and counts over the ranks."
    EDITS = (
        reductions.edit,
        shared_draws.edit,
        gradients.edit,
        spread_forwards.edit,
        process_group.edit,
    )


class WriteOnRankZero(Command):  # type: ignore[misc]
    """Checkpoints, files, folders, logs and bars are rank 0's alone."""

    DESCRIPTION: ClassVar[str] = "Let rank 0 alone write files and show progress."
    EDITS = (rank0_files.edit, command_results.edit, process_group.edit)
