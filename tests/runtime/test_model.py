"""wrap(): the model stays what it was, and its gradients are right after any backward."""

import copy
import io
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from ddpify import runtime as dd
from tests.runtime.ranks import assert_same, command, run, torchrun


class Net(nn.Module):
    """Two halves that a script may also call by themselves."""

    dim = 4  # DistributedDataParallel has attributes of these names too
    device = "mine"

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh())
        self.second = nn.Linear(6, 1)
        self.spare = nn.Linear(2, 2)
        self.logger = "mine"

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        """x: (N, 4)."""
        out: torch.Tensor = self.second(self.first(x)) * scale
        return out

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """x: (N, 4)."""
        out: torch.Tensor = self.first(x)
        return out


def _batches(n: int = 20, batch: int = 5) -> Any:
    generator = torch.Generator().manual_seed(1)
    return dd.shard(DataLoader(torch.randn(n, 4, generator=generator), batch))  # type: ignore[arg-type]


def _steps(backward: Any, *, unused: bool = False) -> Any:
    """Three steps with the gradients that ``backward`` leaves."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model = dd.wrap(net, find_unused_parameters=unused)
    for x in _batches():
        optimizer.zero_grad()
        backward(model, x)
        optimizer.step()
    return {name: p.clone() for name, p in model.state_dict().items()}


def _loss(model: Any, x: torch.Tensor) -> Any:
    return dd.mean(model(x).pow(2).mean())


def _two_forwards_two_backwards(model: Any, x: torch.Tensor) -> None:
    one, two = _loss(model, x), _loss(model, x + 1)
    one.backward()
    two.backward()


def _two_forwards_one_backward(model: Any, x: torch.Tensor) -> None:
    (_loss(model, x) + _loss(model, x + 1)).backward()


def _one_forward_two_backwards(model: Any, x: torch.Tensor) -> None:
    out = model(x)
    dd.mean(out.pow(2).mean()).backward(retain_graph=True)
    dd.mean(out.abs().mean()).backward()


def _method(model: Any, x: torch.Tensor) -> None:
    dd.mean(model.second(model.encode(x)).pow(2).mean()).backward()


def _part(model: Any, x: torch.Tensor) -> None:
    dd.mean(model.first(x).pow(2).mean()).backward()


def _method_and_forward(model: Any, x: torch.Tensor) -> None:
    _method(model, x)
    _loss(model, x).backward()


def _forward_for_show(model: Any, x: torch.Tensor) -> None:
    model(x)
    _method(model, x)
    _loss(model, x).backward()


def _rematerialised(model: Any, x: torch.Tensor) -> None:
    x = x.requires_grad_()
    hidden = checkpoint(model.first, x, use_reentrant=True)
    dd.mean(model.second(hidden).pow(2).mean()).backward()


def _rematerialised_whole(model: Any, x: torch.Tensor) -> None:
    dd.mean(checkpoint(model, x, use_reentrant=False).pow(2).mean()).backward()


def _every_part_by_turns(model: Any, x: torch.Tensor) -> None:
    dd.mean(model(x).pow(2).mean() + model.spare(x[:, :2]).pow(2).mean()).backward()
    _loss(model, x).backward()


BACKWARDS: dict[str, Any] = {
    "one (some parameters unused)": lambda m, x: _loss(m, x).backward(),
    "two forwards, two backwards": _two_forwards_two_backwards,
    "two forwards, one backward": _two_forwards_one_backward,
    "one forward, two backwards": _one_forward_two_backwards,
    "a method": _method,
    "a part": _part,
    "a method and forward": _method_and_forward,
    "a forward without backward": _forward_for_show,
    "checkpointed parts": _rematerialised,
    "all parameters, then some": _every_part_by_turns,
}


def _all_backwards() -> Any:
    found = {}
    for name, backward in BACKWARDS.items():
        for unused in (False, True):
            if unused and backward is _every_part_by_turns:
                continue  # the search for unused parameters does not see those used past forward
            torch.manual_seed(5)
            found[name, unused] = _steps(backward, unused=unused)
    return found


def test_every_kind_of_backward_gives_the_gradients_of_one_process() -> None:
    expected = assert_same(_all_backwards)
    # Five of them are different computations of the gradient of the first layer.
    distinct = {str(state["first.0.weight"]) for state in expected.values()}
    assert len(distinct) >= 4


def _unequal() -> Any:
    """Ranks that skip different layers: a gradient that only some have."""
    model = dd.wrap(nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)}))
    for x in _batches():
        part = "ab"[dd.rank() % 2]
        model[part](x).sum().backward()  # type: ignore[index]
    return {name: p.grad for name, p in model.named_parameters()}


def test_a_gradient_that_some_ranks_lack_counts_as_zero() -> None:
    first, second = run(_unequal, 2)
    assert set(first) == {"a.weight", "a.bias", "b.weight", "b.bias"}
    # 10 rows on each rank's layer, averaged with the other's nothing.
    for name in first:
        assert torch.equal(first[name], second[name])
    assert first["a.bias"].item() != 0
    assert first["a.bias"].item() + first["b.bias"].item() == pytest.approx(10)


class Looked(nn.Module):
    """A table with sparse gradients, after a layer with dense ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.table = nn.Embedding(9, 4, sparse=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (rows, 4)."""
        kinds = (x[:, 0].abs() * 10).long().clamp(max=8)
        return self.first(x).tanh() + self.table(kinds)  # type: ignore[no-any-return]


def _sparse() -> Any:
    model = dd.wrap(Looked())
    dense = torch.optim.SGD(model.first.parameters(), lr=0.1)  # type: ignore[union-attr]
    sparse = torch.optim.SparseAdam(model.table.parameters(), lr=0.1)  # type: ignore[union-attr]
    for x in _batches():
        model.zero_grad()
        dd.mean(model(x).pow(2).mean()).backward()
        dense.step()
        sparse.step()  # type: ignore[no-untyped-call]
    return model.state_dict()


def test_sparse_gradients_are_averaged_and_stay_sparse() -> None:
    assert_same(_sparse)


def _unfrozen() -> Any:
    model = Net()
    model.first.requires_grad_(False)
    model = dd.wrap(model)  # type: ignore[assignment]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, x in enumerate(_batches()):
        if step == 2:
            model.first.requires_grad_(True)
        optimizer.zero_grad()
        dd.mean(model(x).pow(2).mean() + model.spare(x[:, :2]).mean()).backward()
        optimizer.step()
    return model.state_dict()


def test_parameters_that_are_unfrozen_later_train_the_same() -> None:
    assert_same(_unfrozen)


def _made_later() -> Any:
    torch.manual_seed(3)
    model = dd.wrap(nn.Sequential(nn.Tanh()))
    model.append(nn.Linear(2, 3))  # type: ignore[operator]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in _batches():
        optimizer.zero_grad()
        dd.mean(model(x[:, :2]).pow(2).mean()).backward()
        optimizer.step()
    return model.state_dict()


def _frozen_whole() -> Any:
    model = Net().requires_grad_(False)
    model = dd.wrap(model)  # type: ignore[assignment]
    for step, x in enumerate(_batches()):
        if step == 1:
            model.first.requires_grad_(True)
            optimizer = torch.optim.SGD(model.first.parameters(), lr=0.1)
        out = model(x).pow(2).mean()
        if step:
            optimizer.zero_grad()
            dd.mean(out).backward()
            optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize("train", [_made_later, _frozen_whole])
def test_a_model_without_anything_to_train_yet(train: Any) -> None:
    assert_same(train)


def _new_layer() -> Any:
    model = dd.wrap(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, x in enumerate(_batches()):
        if step == 2:
            torch.manual_seed(7 + dd.rank())  # its values differ between ranks
            model.spare = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
            if dd.is_main():
                kept = [p.detach().clone() for p in model.spare.parameters()]
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        out = model(x).pow(2).mean() + model.spare(x[:, :2]).pow(3).mean()  # type: ignore[operator]
        dd.mean(out).backward()
        optimizer.step()
    return model.state_dict() | ({"start": kept} if dd.is_main() else {})


def test_a_layer_that_the_model_gets_later_trains_the_same() -> None:
    expected = run(_new_layer, 1)[0]
    for ranks in (2, 3):
        found = run(_new_layer, ranks)
        assert str(found[0].pop("start")) == str(expected["start"])
        for state in found:
            for name, one in state.items():
                torch.testing.assert_close(one, expected[name])


def _scripted() -> Any:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))
    scripted = torch.jit.script(dd.wrap(model).eval())
    with torch.no_grad():
        model[2].bias.fill_(5.0)  # type: ignore[operator]
    found = torch.jit.script(model)(torch.ones(2, 4)), scripted(torch.ones(2, 4))
    # The model itself goes on to train on all ranks.
    dd.mean(model.train()(torch.full((2, 4), float(dd.rank()))).pow(2).mean()).backward()
    return found, model[0].weight.grad


def test_a_wrapped_model_can_be_scripted() -> None:
    expected = run(_scripted, 1)[0]
    first, second = run(_scripted, 2)
    for one in (first, second):
        torch.testing.assert_close(one[0], expected[0])
    torch.testing.assert_close(first[1], second[1])


def _same_object() -> Any:
    model, ema = Net(), None
    elsewhere, part = [model], model.first
    wrapped = dd.wrap(model)
    assert wrapped is model
    assert dd.wrap(model) is model
    assert dd.unwrap(model) is model
    assert elsewhere[0].first is part
    assert isinstance(model, Net)
    assert isinstance(model.first[1], nn.BatchNorm1d)
    assert [type(m).__name__ for m in (model, model.first[1])] == ["Net", "BatchNorm1d"]
    assert (type(model), type(model.first[1])) == (Net, nn.BatchNorm1d)
    assert type(model.first[1]) in {nn.BatchNorm1d: 1}
    assert type(model.first[1]) not in (nn.BatchNorm2d, nn.Module, Net)
    assert (model.dim, model.device, model.logger) == (4, "mine", "mine")
    model.counter = 7  # type: ignore[assignment]
    ema = copy.deepcopy(model)
    assert type(ema) is Net
    assert type(ema.first[1]) is nn.BatchNorm1d
    assert ema.counter == 7
    ema(torch.ones(2, 4)).sum().backward()  # a plain model: this is no collective
    names = [list(model.state_dict()), [n for n, _ in model.named_parameters()]]
    names += [[n for n, _ in model.named_modules()], [n for n, _ in model.named_buffers()]]
    seen: list[str] = []
    model.apply(lambda m: seen.append(type(m).__name__))
    whole = io.BytesIO()
    torch.save(model, whole)
    return names, seen, repr(model), pickle.dumps(model.state_dict()), whole.getvalue()


def test_the_model_stays_the_object_that_it_was(tmp_path: Path) -> None:
    expected = run(_same_object, 1)[0]
    for found in run(_same_object, 2):
        assert found[:3] == expected[:3]
        assert pickle.loads(found[3]).keys() == pickle.loads(expected[3]).keys()
        assert b"ddpify" not in found[4]
        assert pickled_globals(found[4]) == pickled_globals(expected[4])


def pickled_globals(saved: bytes) -> set[str]:
    """The names that loading a saved object asks for."""
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        operations = pickletools.genops(archive.read(name))
        return {str(argument) for op, argument, _ in operations if op.name == "GLOBAL"}


def _state_dicts() -> Any:
    model = dd.wrap(Net())
    for value in model.state_dict().values():
        value.fill_(dd.rank())
    model.load_state_dict({k: torch.full_like(v, 3) for k, v in model.state_dict().items()})
    values = {k: float(v.double().mean()) for k, v in model.state_dict().items()}
    return values, model.second.bias.item(), model.eval().training  # type: ignore[union-attr, operator]


def test_state_dicts_load_and_modes_switch() -> None:
    for values, bias, training in run(_state_dicts, 2):
        assert set(values.values()) == {3.0}
        assert bias == 3.0
        assert training is False


WHOLE = """
import torch
from torch import nn
from ddpify import runtime as dd
dd.init()
model = dd.wrap(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
dd.save(model, "whole.pt")
dd.save({"model": model, "optimizer": torch.optim.Adam(model.parameters())}, "both.pt")
"""

READ = """
import sys
import torch
for name in ("whole.pt", "both.pt"):
    loaded = torch.load(name, weights_only=False)
    model = loaded if name == "whole.pt" else loaded["model"]
    print(model(torch.ones(2, 2)).shape, type(model), type(model[1]))
print("ddpify" in sys.modules)
"""


@pytest.mark.torchrun
def test_a_whole_model_is_read_without_ddpify(tmp_path: Path) -> None:
    (tmp_path / "write.py").write_text(WHOLE)
    (tmp_path / "read.py").write_text(READ)
    assert command([*torchrun(2), "write.py"], folder=tmp_path).returncode == 0
    read = command(["read.py"], folder=tmp_path, env={"PYTHONPATH": ""})
    kind = "<class 'torch.nn.modules.container.Sequential'>"
    norm = "<class 'torch.nn.modules.batchnorm.BatchNorm1d'>"
    assert read.stdout == f"torch.Size([2, 3]) {kind} {norm}\n" * 2 + "False\n"


def _first_parameters() -> Any:
    torch.manual_seed(dd.rank())
    trained, fixed = Net(), nn.BatchNorm1d(3).requires_grad_(False)
    for tensor in (*trained.buffers(), *fixed.buffers(), *fixed.parameters()):
        tensor.fill_(dd.rank())
    return dd.wrap(trained).state_dict(), dd.wrap(fixed).state_dict()


def test_every_rank_starts_from_rank_0() -> None:
    first, *others = run(_first_parameters, 3)
    assert first[1]["running_var"].tolist() == [0.0, 0.0, 0.0]
    for other in others:
        for one, two in zip(first, other, strict=True):
            assert all(torch.equal(one[key], two[key]) for key in one)


def _hooks() -> list[str]:
    model, calls = Net(), []
    model.register_forward_pre_hook(lambda *_: calls.append("before"))
    model.register_forward_hook(lambda *_: calls.append("after"))
    model = dd.wrap(model)  # type: ignore[assignment]
    for x in _batches(5):
        model(x, scale=2.0)
    return calls


def test_hooks_run_once() -> None:
    assert run(_hooks, 2) == [["before", "after"]] * 2


def _compiled() -> Any:
    model = dd.wrap(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fast = torch.compile(model, backend="eager")
    for x in _batches():
        optimizer.zero_grad()
        dd.mean(fast(x).pow(2).mean()).backward()
        optimizer.step()
    return model.state_dict()


def test_a_compiled_model_trains_the_same() -> None:
    assert_same(_compiled, sizes=(2,))


def _signature() -> str:
    import inspect

    return str(inspect.signature(dd.wrap(Net()).forward))


def test_the_forward_keeps_its_signature() -> None:
    assert run(_signature, 2) == [run(_signature, 1)[0]] * 2


class Spreading(nn.Module):
    """Takes means over the neighbours in a graph, which a sparse buffer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.of_nodes = nn.Embedding(4, 2)
        graph = torch.eye(4).roll(1, 0) * (dd.rank() + 1)
        self.register_buffer("graph", graph.to_sparse().coalesce())

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        spread: torch.Tensor = torch.sparse.mm(self.graph, self.of_nodes.weight)
        return spread[nodes]


def test_a_buffer_may_be_sparse() -> None:
    def job() -> tuple[list[list[float]], list[list[float]]]:
        model: Any = dd.wrap(Spreading())
        nodes = torch.arange(4).tensor_split(2)[dd.rank()]
        dd.mean(model(nodes).pow(2).mean()).backward()
        assert model.graph.is_sparse and model.graph.is_coalesced()
        return model.graph.to_dense().tolist(), model.of_nodes.weight.grad.tolist()

    first, second = run(job, 2)
    assert first == second
    assert first[0] == torch.eye(4).roll(1, 0).tolist()
