"""wrap(strategy="fsdp"): a sharded model trains as one process does, however it is used."""

import copy
from typing import Any

import pytest
import torch
import torch.distributed.fsdp
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from ddpify.runtime.sharding import fsdp_options
from tests.runtime.ranks import assert_same, launch, run


class Block(nn.Module):
    """Two layers, the unit of sharding."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 5)
        self.outer = nn.Linear(5, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, width)."""
        out: torch.Tensor = x + self.outer(torch.tanh(self.inner(x)))
        return out


class Net(nn.Module):
    """Blocks, layers outside of them, batch normalisation, a scalar, and an unused layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh())
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.second = nn.Linear(6, 1)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.spare = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        return self.decode(self.encode(x))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x

    def decode(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 6)."""
        out: torch.Tensor = self.second(x) * self.scale
        return out


def _sharded(model: nn.Module, **options: Any) -> Any:
    return dd.wrap(model, strategy="fsdp", **options)


def _batches(n: int = 20, batch: int = 5) -> Any:
    generator = torch.Generator().manual_seed(1)
    return dd.shard(DataLoader(torch.randn(n, 4, generator=generator), batch))  # type: ignore[arg-type]


def _state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: dd.full_tensor(value).clone() for name, value in model.state_dict().items()}


def _steps(backward: Any, **options: Any) -> Any:
    """Four steps with the gradients that ``backward`` leaves."""
    model = _sharded(Net(), **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x in _batches():
        optimizer.zero_grad()
        backward(model, x)
        optimizer.step()
    return _state(model)


def _loss(model: Any, x: torch.Tensor) -> Any:
    return dd.mean(model(x).pow(2).mean())


def _two_forwards_two_backwards(model: Any, x: torch.Tensor) -> None:
    one, two = _loss(model, x), _loss(model, x + 1)
    one.backward()
    two.backward()


def _one_forward_two_backwards(model: Any, x: torch.Tensor) -> None:
    out = model(x)
    dd.mean(out.pow(2).mean()).backward(retain_graph=True)
    dd.mean(out.abs().mean()).backward()


def _methods(model: Any, x: torch.Tensor) -> None:
    dd.mean(model.decode(model.encode(x)).pow(2).mean()).backward()


def _parts(model: Any, x: torch.Tensor) -> None:
    hidden = model.blocks[1].outer(model.blocks[0].inner(model.first(x)))
    dd.mean(model.second(hidden).pow(2).mean()).backward()


def _method_and_forward(model: Any, x: torch.Tensor) -> None:
    _methods(model, x)
    _loss(model, x).backward()


def _forward_for_show(model: Any, x: torch.Tensor) -> None:
    model(x)
    with torch.no_grad():
        model(x)
    _loss(model, x).backward()


def _checkpointed(model: Any, x: torch.Tensor) -> None:
    dd.mean(checkpoint(model, x, use_reentrant=False).pow(2).mean()).backward()


def _penalty(model: Any, x: torch.Tensor) -> None:
    """Terms of the parameters beside the loss, and one that uses them on a rank's own rows."""
    norms = sum(p.pow(2).sum() for p in model.parameters())
    largest = max(p.abs().max() for name, p in model.named_parameters() if name.endswith("weight"))
    own = dd.mean((model.first(x) @ model.second.weight.T).pow(2).mean())
    (_loss(model, x) + 0.01 * norms + 0.1 * largest + own).backward()


def _clipped(model: Any, x: torch.Tensor) -> None:
    _loss(model, x).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    assert f"{norm:.6f}" == f"{norm.item():.6f}"


BACKWARDS: dict[str, Any] = {
    "one (some parameters unused)": lambda m, x: _loss(m, x).backward(),
    "two forwards, two backwards": _two_forwards_two_backwards,
    "two forwards, one backward": lambda m, x: (_loss(m, x) + _loss(m, x + 1)).backward(),
    "one forward, two backwards": _one_forward_two_backwards,
    "methods": _methods,
    "parts": _parts,
    "a method and forward": _method_and_forward,
    "forwards without backward": _forward_for_show,
    "checkpointed": _checkpointed,
    "penalty": _penalty,
    "clipped": _clipped,
}


def _all_backwards() -> Any:
    found = {}
    for name, backward in BACKWARDS.items():
        torch.manual_seed(5)
        found[name] = _steps(backward)
    return found


def test_every_kind_of_backward_gives_the_gradients_of_one_process() -> None:
    # Three ranks have parts of different sizes.
    expected = assert_same(_all_backwards, sizes=(3,))
    distinct = {str(state["first.0.weight"]) for state in expected.values()}
    assert len(distinct) >= 6


def _same_object() -> Any:
    model = Net()
    elsewhere, block = [model], model.blocks[0]
    wrapped = _sharded(model)
    assert wrapped is model
    assert _sharded(model) is model
    assert dd.unwrap(model) is model
    assert elsewhere[0].blocks[0] is block
    assert isinstance(model, Net)
    assert isinstance(block, Block)
    assert type(model.blocks[:2]) is nn.ModuleList
    names = [list(model.state_dict()), [n for n, _ in model.named_parameters()]]
    names += [[n for n, _ in model.named_modules()], [n for n, _ in model.named_buffers()]]
    shapes = [p.shape for p in model.parameters()]
    return names, shapes, repr(model), type(model).__name__, type(block).__qualname__


def test_the_model_stays_the_object_that_it_was() -> None:
    expected = run(_same_object, 1)[0]
    assert run(_same_object, 2) == [expected] * 2


def _held() -> tuple[int, int]:
    """Elements of parameters that the model has, and that this rank holds."""
    model = _sharded(nn.Sequential(nn.Linear(8, 12), nn.Linear(12, 12)))
    parts = [p.to_local() if dd.world_size() > 1 else p for p in model.parameters()]
    return sum(p.numel() for p in model.parameters()), sum(p.numel() for p in parts)


def test_each_rank_holds_its_part() -> None:
    assert run(_held, 1) == [(264, 264)]
    assert run(_held, 3) == [(264, 88)] * 3


def _blocks() -> Any:
    model = _sharded(Net())
    tied = Net()
    tied.blocks[0].inner.weight = tied.blocks[1].inner.weight  # type: ignore[union-attr]
    _sharded(tied)
    named = _sharded(Net(), blocks=[nn.Linear])
    kind = torch.distributed.fsdp.FSDPModule
    return [
        [n for n, m in one.named_modules() if isinstance(m, kind)] for one in (model, tied, named)
    ]


def test_blocks_are_units_and_tied_ones_are_not() -> None:
    model, tied, named = run(_blocks, 2)[0]
    assert model == ["", "blocks.0", "blocks.1", "blocks.2"]
    assert tied == ["", "blocks.2"]
    assert named[1:3] == ["first.0", "blocks.0.inner"]


class Tied(nn.Module):
    """The embedding's weight is the decoder's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.blocks = nn.Sequential(Block(), Block())
        self.decoder = nn.Linear(6, 7, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        tokens = x.abs().mul(3).long().clamp(max=6)
        out: torch.Tensor = self.decoder(self.blocks(self.embedding(tokens)).mean(1))
        return out


def _tied() -> Any:
    model = _sharded(Tied())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for x in _batches():
        optimizer.zero_grad()
        _loss(model, x).backward()
        optimizer.step()
    assert model.decoder.weight is model.embedding.weight
    return _state(model)


def _frozen_and_unfrozen() -> Any:
    model = Net()
    model.first.requires_grad_(False)
    model = _sharded(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)
    for step, x in enumerate(_batches()):
        if step == 2:
            model.first.requires_grad_(True)
        optimizer.zero_grad()
        _loss(model, x).backward()
        optimizer.step()
    return _state(model)


def _averages() -> Any:
    """Moving averages in a copy made before, in one made after, and in torch's own."""
    plain = Net()
    before = copy.deepcopy(plain)
    model = _sharded(plain)
    after = copy.deepcopy(model)
    assert type(after) is not Net or dd.world_size() == 1
    torchs = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in _batches():
        optimizer.zero_grad()
        _loss(model, x).backward()
        optimizer.step()
        torchs.update_parameters(model)
        with torch.no_grad():
            for average in (before, after):
                for own, new in zip(average.parameters(), model.parameters(), strict=True):
                    own.mul_(0.9).add_(new, alpha=0.1)
    x = torch.ones(2, 4)
    seen = [average.eval()(x) for average in (before, after, torchs)]
    return [_state(m) for m in (model, before, after, torchs)], [s.detach() for s in seen]


def _accumulated_with_scaler() -> Any:
    model = _sharded(Net(), activation_checkpointing=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for step, x in enumerate(_batches(23, 4)):
        scaler.scale(_loss(model, x) / 2).backward()
        if step == 3:
            for p in model.parameters():
                p.grad = None if p.grad is None else p.grad * float("inf")
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return _state(model), scaler.get_scale()


USES: dict[str, Any] = {
    "tied weights": _tied,
    "frozen, then not": _frozen_and_unfrozen,
    "moving averages": _averages,
    "accumulation, scaler, clipping, recomputed activations": _accumulated_with_scaler,
}


def _all_uses() -> Any:
    found = {}
    for name, use in USES.items():
        torch.manual_seed(6)
        found[name] = use()
    return found


def test_every_use_gives_what_one_process_gives() -> None:
    found = assert_same(_all_uses, sizes=(2,))
    assert found["accumulation, scaler, clipping, recomputed activations"][1] == 4.0


def _optimizer_first() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _sharded(model)
    for x in _batches():
        _loss(model, x).backward()
        optimizer.step()


def test_an_optimizer_made_before_is_refused() -> None:
    for outcome in launch(_optimizer_first, 2):
        assert outcome.code != 0
        assert "make it after dd.wrap()" in outcome.stderr


def test_a_torch_without_all_of_fsdp2_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.6.0+cpu")
    with pytest.raises(RuntimeError, match=r"needs torch 2\.7 or later \(this is 2\.6\.0"):
        fsdp_options(torch.device("cpu"))


@pytest.mark.parametrize("options", [{"strategy": "zero"}, {"mixed_precision": torch.float16}])
def test_wrong_options_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match="strategy="):
        dd.wrap(Net(), **options)


class Attention(nn.Module):
    """torch's own encoder, whose fast path looks at its layers' parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(4, 8), nn.Linear(8, 1)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        rows = self.embed(x).unsqueeze(1).repeat(1, 3, 1)
        mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=x.dtype)
        out: torch.Tensor = self.head(self.encoder(rows, mask=mask, is_causal=True))
        return out


class Recurrent(nn.Module):
    """Layers that list their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True)
        self.second = nn.GRU(12, 5, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        out: torch.Tensor = self.second(self.first(x.unsqueeze(1).repeat(1, 3, 1))[0])[0]
        return out


class Parametrized(nn.Module):
    """Weights that are computed from others, in both of torch's ways, and free parameters."""

    def __init__(self) -> None:
        super().__init__()
        norms = nn.utils.parametrizations
        self.first = norms.weight_norm(nn.Linear(4, 6))
        self.second = norms.spectral_norm(nn.Linear(6, 6))
        self.free = nn.ParameterList(nn.Parameter(torch.randn(6)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        return torch.tanh(self.second(self.first(x)) * self.free[0] + self.free[1])


def _architectures() -> Any:
    found = {}
    for kind in (Attention, Recurrent, Parametrized):
        torch.manual_seed(3)
        model = _sharded(kind())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        seen = []
        for x in _batches():
            optimizer.zero_grad()
            _loss(model.train(), x).backward()
            optimizer.step()
            with torch.no_grad():
                seen.append(_loss(model.eval(), x).item())
        found[kind.__name__] = _state(model), seen
    return found


def test_layers_of_all_kinds_train_the_same() -> None:
    assert_same(_architectures, sizes=(2,))
