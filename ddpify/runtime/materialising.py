"""Models that were built on the meta device, without memory, and get their first values late."""

from collections.abc import Callable

import torch
from torch import nn

Initialiser = Callable[[nn.Module], object]


def is_on_meta(model: nn.Module) -> bool:
    """Whether a parameter has no memory yet."""
    return any(parameter.is_meta for parameter in model.parameters())


class Materialiser:
    """Gives modules on the meta device memory and first values, part by part.

    A module draws its values as its constructor would, by its ``reset_parameters``, and then is
    handed to ``init_weights``, as by ``nn.Module.apply``. Draws come from the CPU's stream, which
    all ranks share: values do not depend on the number of ranks.
    """

    def __init__(self, place: torch.device, init_weights: Initialiser | None) -> None:
        self.place, self.init_weights = place, init_weights
        self.made: dict[torch.Tensor, nn.Parameter] = {}
        self.done: set[nn.Module] = set()

    def fill(self, part: nn.Module) -> None:
        """Give the modules of a part, which may be the whole model, their values."""
        modules = [module for module in part.modules() if module not in self.done]
        for module in modules:
            self._allocate(module)
        if self.init_weights is not None:
            part.apply(self._initialise)
        self.done.update(modules)
        for module in modules:
            self._move(module)

    def _initialise(self, module: nn.Module) -> None:
        if module not in self.done and self.init_weights is not None:
            self.init_weights(module)

    def _allocate(self, module: nn.Module) -> None:
        own = {name: p for name, p in module._parameters.items() if p is not None and p.is_meta}
        buffers = {name: b for name, b in module._buffers.items() if b is not None and b.is_meta}
        for name, parameter in own.items():
            if parameter not in self.made:  # tied weights stay tied
                empty = torch.empty_like(parameter, device="cpu")
                self.made[parameter] = nn.Parameter(empty, parameter.requires_grad)
            setattr(module, name, self.made[parameter])
        for name, buffer in buffers.items():
            module._buffers[name] = torch.empty_like(buffer, device="cpu")
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
        elif buffers or (own and self.init_weights is None):
            raise RuntimeError(
                f"{type(module).__name__} has {', '.join([*own, *buffers])} on the meta device and "
                "no reset_parameters() that gives them values; define one, or build the model "
                "with its values"
            )

    def _move(self, module: nn.Module) -> None:
        for parameter in module._parameters.values():
            if parameter is not None:
                parameter.data = parameter.data.to(self.place)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = buffer.to(self.place)
