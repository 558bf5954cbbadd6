"""Memory of whole and sharded models: as foreseen; models without memory; the choice."""

from typing import Any

import pytest
import torch
import torch.distributed.fsdp
from torch import nn

from ddpify import runtime as dd
from ddpify.runtime.blocks import repeated_blocks
from ddpify.runtime.memory import footprint
from tests.runtime.ranks import assert_same, launch, run
from tests.runtime.test_fsdp import Block, _batches, _loss


class Deep(nn.Module):
    """Blocks between two layers, with sizes that 2 and 4 do not divide."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.blocks = nn.Sequential(*(Block() for _ in range(4)))
        self.last = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        out: torch.Tensor = self.last(self.blocks(self.first(x)))
        return out


OPTIMIZERS: dict[str, Any] = {
    "adam": (torch.optim.Adam, {}, 2.0),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 1.0),
    "sgd": (torch.optim.SGD, {"lr": 0.1}, 0.0),
}


def _bytes(tensors: Any) -> int:
    held = [t.to_local() if hasattr(t, "to_local") else t for t in tensors]
    return sum(t.numel() * t.element_size() for t in held)


def _measured() -> dict[tuple[str, str], int]:
    """The bytes that this rank holds after a step, by strategy and optimizer."""
    found = {}
    for strategy in ("ddp", "fsdp"):
        for name, (kind, options, _) in OPTIMIZERS.items():
            model: Any = dd.wrap(Deep(), strategy=strategy)
            optimizer = kind(model.parameters(), **options)
            for x in _batches(5):
                _loss(model, x).backward()
                optimizer.step()
            states = [v for s in optimizer.state.values() for k, v in s.items() if k != "step"]
            held = [*model.parameters(), *(p.grad for p in model.parameters()), *states]
            found[strategy, name] = _bytes(t for t in held if t is not None)
    return found


@pytest.mark.parametrize("size", [1, 2, 4])
def test_memory_is_as_foreseen(size: int) -> None:
    model = Deep().double()
    measured = run(_measured, size)[0]
    for name, (_, _, states) in OPTIMIZERS.items():
        held = footprint(model, repeated_blocks(model), states)
        assert measured["fsdp", name] == held.divided(size)
        assert measured["ddp", name] == held.divided(1)
        buckets = held.gradients if size > 1 else 0
        assert held.replicated(size) == measured["ddp", name] + buckets


def _auto(optimizer_states: float = 2.0) -> str:
    model = dd.wrap(Deep(), strategy="auto", optimizer_states=optimizer_states)
    sharded = isinstance(model, torch.distributed.fsdp.FSDPModule)
    return "fsdp" if sharded else "ddp"


def test_auto_shards_what_does_not_fit_and_says_why() -> None:
    # 335 parameters of 8 bytes: 13 KB with Adam under DistributedDataParallel, 8 KB without states.
    for states, expected in ((2.0, "fsdp"), (0.0, "ddp")):
        outcomes = launch(
            lambda states=states: _auto(states),  # type: ignore[misc]
            2,
            env={"DDPIFY_DEVICE_MEMORY": "1.5e-5"},
        )
        assert [outcome.value for outcome in outcomes] == [expected] * 2
        said = [line for o in outcomes for line in o.stderr.splitlines() if "ddpify:" in line]
        assert len(said) == 1
        assert ("FSDP" if expected == "fsdp" else "DistributedDataParallel: it needs") in said[0]


def _from_meta(init: bool) -> Any:
    with torch.device("meta"):
        model = Deep()

    def init_weights(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight)

    model = dd.wrap(model, strategy="fsdp", init_weights=init_weights if init else None)  # type: ignore[assignment]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in _batches():
        optimizer.zero_grad()
        _loss(model, x).backward()
        optimizer.step()
    return {name: dd.full_tensor(value) for name, value in model.state_dict().items()}


def test_models_without_memory_start_alike_at_any_number_of_ranks() -> None:
    plain, own = assert_same(lambda: [_from_meta(False), _from_meta(True)])
    assert own["first.weight"].std() > 1.5 * plain["first.weight"].std()


class Table(nn.Module):
    """A buffer that only the constructor fills."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(3))
        self.layer = nn.Linear(2, 2)


def test_values_that_cannot_be_known_are_refused() -> None:
    with torch.device("meta"):
        model = Table()
    with pytest.raises(RuntimeError, match="Table has mask on the meta device"):
        dd.wrap(model)
