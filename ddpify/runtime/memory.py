"""How much memory a rank needs for a model, whole or sharded, and which of the two fits."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

FILLED = 0.65
"""The part of a device's memory that model and optimizer may fill: activations need the rest."""

GIB = 1 << 30


@dataclass(frozen=True)
class Piece:
    """One parameter: its rows (dimension 0), the bytes of a row, and what comes with it.

    Attributes:
        unit: Number of the unit of sharding; 0 is the model itself, blocks come after it.
        trained: Whether it has a gradient.
        states: Bytes of its optimizer states, as a multiple of its own.
    """

    rows: int
    row_bytes: int
    unit: int
    trained: bool
    states: float

    @property
    def whole(self) -> int:
        """Bytes."""
        return self.rows * self.row_bytes

    def part(self, ranks: int) -> int:
        """Bytes on rank 0, which has the largest part."""
        return -(-self.rows // ranks) * self.row_bytes


@dataclass(frozen=True)
class Footprint:
    """What a model holds in memory beside activations: its parameters, and bytes of buffers."""

    pieces: tuple[Piece, ...]
    buffers: int = 0

    @property
    def parameters(self) -> int:
        """Bytes of the parameters."""
        return _whole_number(piece.whole for piece in self.pieces)

    @property
    def gradients(self) -> int:
        """Bytes of the gradients."""
        return _whole_number(piece.whole for piece in self.pieces if piece.trained)

    @property
    def states(self) -> int:
        """Bytes of the optimizer's states."""
        return _whole_number(piece.whole * piece.states for piece in self.pieces)

    def replicated(self, ranks: int) -> int:
        """Bytes a rank under DistributedDataParallel, its buckets of gradients included."""
        held = self.parameters + self.gradients + self.states + self.buffers
        return held + (self.gradients if ranks > 1 else 0)

    def divided(self, ranks: int) -> int:
        """Bytes a rank that stay with it when the model is sharded."""
        kept = (p.part(ranks) * (1 + p.trained + p.states) for p in self.pieces)
        return _whole_number(kept) + self.buffers

    def sharded(self, ranks: int, gathered: float = 1.0) -> int:
        """Bytes a rank under FSDP at its peak, in backward.

        ``gathered``: bytes of a gathered parameter as a share of its own; less than 1 under mixed
        precision.
        """
        if ranks == 1:
            return self.replicated(1)
        return self.divided(ranks) + self._at_work(gathered)

    def offloaded(self, gathered: float = 1.0) -> int:
        """Bytes on a rank's device at that peak where its own part lies in the host's memory."""
        return self._at_work(gathered) + self.buffers

    def _at_work(self, gathered: float) -> int:
        """Bytes of what a rank holds whole for a while, beside its parts.

        The model's own unit and two blocks (the one at work, and the next), and whole gradients of
        the model's own unit and of one block, in the parameters' own dtype.
        """
        units: dict[int, int] = {}
        for piece in self.pieces:
            units[piece.unit] = units.get(piece.unit, 0) + piece.whole
        own = units.pop(0, 0)
        largest = max(units.values(), default=0)
        return round(gathered * (own + 2 * largest)) + own + largest

    def choice(self, ranks: int, memory: int) -> str:
        """The strategy that fits: "ddp" where it does, as it is faster, else "fsdp"."""
        fits = ranks == 1 or self.replicated(ranks) <= FILLED * memory
        return "ddp" if fits else "fsdp"


def footprint(
    model: nn.Module, blocks: Sequence[nn.Module], states: dict[nn.Parameter, float] | float = 2.0
) -> Footprint:
    """Measure a model, which may be on the meta device.

    blocks: its units of sharding. ``states``: the bytes of the optimizer's states as a multiple
    of the parameters', for all (2 is Adam's) or for each.
    """
    units = {p: at for at, block in enumerate(blocks, 1) for p in block.parameters()}
    pieces = []
    for parameter in model.parameters():
        ratio = states if isinstance(states, float) else states.get(parameter, 0.0)
        rows = parameter.shape[0] if parameter.dim() else 1
        size = parameter.numel() * parameter.element_size()
        trained = parameter.requires_grad
        row_bytes = size // max(rows, 1)
        pieces.append(
            Piece(rows, row_bytes, units.get(parameter, 0), trained, ratio if trained else 0.0)
        )
    buffers = _whole_number(b.numel() * b.element_size() for b in model.buffers())
    return Footprint(tuple(pieces), buffers)


def device_memory(place: torch.device) -> int:
    """Bytes of a rank's device: an accelerator's, or its share of the host's memory.

    ``DDPIFY_DEVICE_MEMORY`` in the environment, in GiB, goes before what is measured.
    """
    if os.environ.get("DDPIFY_DEVICE_MEMORY"):
        return round(float(os.environ["DDPIFY_DEVICE_MEMORY"]) * GIB)
    if place.type == "cpu":
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return whole // int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    free_and_total = torch.get_device_module(place).mem_get_info(place)
    return int(free_and_total[1])


def explained(held: Footprint, ranks: int, memory: int) -> str:
    """The choice between the strategies, and why, in a line."""
    needed = held.replicated(ranks)
    share = f"{needed / GIB:.2f} GiB a rank, {needed / memory:.0%} of {memory / GIB:.2f} GiB"
    parts = (
        f"parameters {held.parameters / GIB:.2f}, gradients {held.gradients / GIB:.2f}, "
        f"optimizer states {held.states / GIB:.2f}"
    )
    if held.choice(ranks, memory) == "ddp":
        return f"DistributedDataParallel: it needs {share} ({parts})"
    return (
        f"FSDP, with {held.sharded(ranks) / GIB:.2f} GiB a rank: DistributedDataParallel would need"
        f" {share} ({parts}), and activations want {1 - FILLED:.0%} of it"
    )


def _whole_number(numbers: Iterable[float]) -> int:
    """The sum of numbers of bytes (the runtime's own sum() is the ranks')."""
    total = 0.0
    for number in numbers:
        total += number
    return round(total)
