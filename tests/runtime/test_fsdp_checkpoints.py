"""Checkpoints of a sharded model are those of one process, in both directions."""

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint  # here once, not in every rank
import torch.distributed.fsdp
from torch import nn

from ddpify import runtime as dd
from tests.runtime.ranks import assert_close, run
from tests.runtime.test_fsdp import Net, Tied, _batches, _loss


def _trained(model: nn.Module, steps: int = 2) -> tuple[Any, torch.optim.Optimizer]:
    model = dd.wrap(model, strategy="fsdp")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    _train(model, optimizer, steps)
    return model, optimizer


def _train(model: Any, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for step, x in enumerate(_batches()):
        if step < steps:
            optimizer.zero_grad()
            _loss(model, x).backward()
            optimizer.step()


class NoNorm(Net):
    """Without the layer whose bias Adam moves by mere rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.first[1] = nn.Identity()


def _write(folder: Path) -> list[str]:
    torch.manual_seed(8)
    model, optimizer = _trained(NoNorm())
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    dd.save(states, folder / "states.pt")
    dd.save(model, folder / "whole.pt")
    dd.save({"nested": [model, {"weight": model.second.weight}]}, folder / "nested.pt")
    tied, _ = _trained(Tied(), steps=0)
    dd.save(tied.state_dict(), folder / "tied.pt")
    return sorted(os.listdir(folder))


def _read(folder: Path) -> dict[str, Any]:
    names = [path.name for path in sorted(folder.glob("*.pt"))]
    return {name: torch.load(folder / name, weights_only=False) for name in names}


def _plain(value: Any) -> Any:
    """Models as their states."""
    if isinstance(value, nn.Module):
        return {"kind": type(value).__name__, **value.state_dict()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def test_files_are_those_of_one_process(tmp_path: Path) -> None:
    for size in (1, 2, 3):
        (tmp_path / str(size)).mkdir()
        assert run(lambda size=size: _write(tmp_path / str(size)), size)[0] == [  # type: ignore[misc]
            "nested.pt",
            "states.pt",
            "tied.pt",
            "whole.pt",
        ]
    expected = _read(tmp_path / "1")
    for size in (2, 3):
        found = _read(tmp_path / str(size))
        assert_close(_plain(found), _plain(expected), at=f"{size} ranks")
        whole, tied = found["whole.pt"], found["tied.pt"]
        assert type(whole) is NoNorm
        assert whole(torch.ones(2, 4, dtype=torch.float64)).shape == (2, 1)
        assert tied["decoder.weight"].data_ptr() == tied["embedding.weight"].data_ptr()
        sizes = [(tmp_path / str(n) / "states.pt").stat().st_size for n in (1, size)]
        assert abs(sizes[0] - sizes[1]) < 0.1 * sizes[0]  # no view of something larger


def _resume(folder: Path) -> Any:
    """Whole states of one process go on, sharded; and from what that writes, one process does."""
    torch.manual_seed(9)
    model = dd.wrap(NoNorm(), strategy="fsdp")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    states = torch.load(folder / "1" / "states.pt", weights_only=True)
    missing = model.load_state_dict(states["model"])
    assert not missing.missing_keys and not missing.unexpected_keys
    optimizer.load_state_dict(states["optimizer"])
    _train(model, optimizer, 3)
    own = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(own)
    return {name: dd.full_tensor(value) for name, value in own.items()}


def test_states_of_one_process_go_on_sharded(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    run(lambda: _write(tmp_path / "1"), 1)
    expected = run(lambda: _resume(tmp_path), 1)[0]
    for found in run(lambda: _resume(tmp_path), 3):
        assert_close(found, expected)


def _wrong_shape() -> str:
    model = dd.wrap(Net(), strategy="fsdp")
    state = {name: torch.zeros(9, 9) for name in model.state_dict()}
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_state_of_another_shape_is_refused_as_in_one_process() -> None:
    found, expected = run(_wrong_shape, 2)[0], run(_wrong_shape, 1)[0]
    assert "size mismatch for second.weight" in found
    assert found.splitlines()[0] == expected.splitlines()[0]


def _sharded_run(folder: Path, resume: bool) -> Any:
    torch.manual_seed(10)
    model, optimizer = _trained(NoNorm(), steps=0 if resume else 2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "epoch": 7}
    if resume:
        objects["epoch"] = 0
        assert dd.load_sharded(objects, folder) == {"epoch": 7}
    else:
        scheduler.step()
        dd.save_sharded(objects, folder).wait()
        objects["epoch"] = 7
        saving = dd.save_sharded(objects, folder)  # over the former, while training goes on
        _train(model, optimizer, 2)
        saving.wait()
        dd.load_sharded(objects, folder)
    _train(model, optimizer, 3)
    return {name: dd.full_tensor(value).clone() for name, value in model.state_dict().items()}


def test_sharded_checkpoints_load_at_any_number_of_ranks(tmp_path: Path) -> None:
    expected = run(lambda: _sharded_run(tmp_path / "1", False), 1)[0]
    for writers, readers in ((2, 3), (3, 2), (2, 1), (1, 2)):
        folder = tmp_path / str(writers)
        if not folder.exists():
            found = run(lambda folder=folder: _sharded_run(folder, False), writers)  # type: ignore[misc]
            assert_close(found, [expected] * writers)
        found = run(lambda folder=folder: _sharded_run(folder, True), readers)  # type: ignore[misc]
        assert_close(found, [expected] * readers, at=f"from {writers} to {readers}")
    assert sorted(os.listdir(tmp_path)) == ["1", "2", "3"]
    assert len(os.listdir(tmp_path / "2")) == 3  # a part of each rank, and the table of contents


def test_a_kill_between_two_names_leaves_the_former_checkpoint(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    weight = model.weight.detach().clone()
    dd.save_sharded({"model": model, "epoch": 3}, tmp_path / "last").wait()
    os.rename(tmp_path / "last", tmp_path / ".saving-last.former")
    nn.init.zeros_(model.weight)
    assert dd.load_sharded({"model": model, "epoch": 0}, tmp_path / "last") == {"epoch": 3}
    assert torch.equal(model.weight, weight)
