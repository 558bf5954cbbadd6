"""What a sharded model is made of: its units, and how it is run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn

from ddpify.runtime.dtensor import full_tensors
from ddpify.runtime.share import inside_forward

SHARDING = "_ddpify_sharding"


@dataclass
class Sharding:
    """How a model is sharded.

    Attributes:
        model: The whole model.
        blocks: The parts of it that are units of their own; the rest is one unit with the model.
        options: ``fully_shard``'s.
        before_forward: Called before each forward of the model.
        prepare: Called with each unit before it is sharded.
        added: The names of the attributes that sharding set, by module.
    """

    model: nn.Module
    blocks: list[nn.Module]
    options: dict[str, Any]
    before_forward: Callable[[nn.Module], None] | None = None
    prepare: Callable[[nn.Module], None] | None = None
    added: dict[nn.Module, set[str]] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype | None:
        """What parameters are gathered and computed with in, if not their own dtype."""
        policy = self.options.get("mp_policy")
        return policy.param_dtype if policy is not None else None

    @property
    def units(self) -> list[nn.Module]:
        """Blocks first, the model last."""
        return [*self.blocks, self.model]

    def unit_of(self) -> dict[nn.Module, nn.Module]:
        """The unit of each module."""
        units = dict.fromkeys(self.model.modules(), self.model)
        for block in self.blocks:
            units |= dict.fromkeys(block.modules(), block)
        return units

    def run(self, *inputs: Any, **kwargs: Any) -> Any:
        """The model's forward on this rank's rows."""
        if self.before_forward is not None:
            self.before_forward(self.model)
        place = torch.device(self.options["mesh"].device_type)
        model: Any = self.model
        with inside_forward(place):
            # A tensor made like a parameter, as a hidden state may be, is a DTensor.
            return model.ddpify_forward(*full_tensors(inputs), **full_tensors(kwargs))

    def reshard(self) -> None:
        """Let every module hold its parameters in parts, also amid a forward."""
        for unit in self.units:
            cast(Any, unit).reshard()


class ShardedModule(nn.Module):
    """Mixed in before the class that ``fully_shard`` gives a unit."""

    ddpify_class: type[nn.Module]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """What a container makes of itself, as for a slice, is of its own class."""
        return cls.ddpify_class(*args, **kwargs)

    def ddpify_forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The forward of the unit's own class."""
        return self.ddpify_class.forward(self, *inputs, **kwargs)

    def ddpify_enter(self, function: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Any:
        """Call a function while the unit's parameters are gathered, as in its forward."""
        return function(*inputs, **kwargs)
