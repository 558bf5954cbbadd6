"""Snapshots: what they hold, what goes wrong with their files, and where a restart goes on."""

from __future__ import annotations

import enum
import errno
import os
import random
import resource
import signal
import sys
from array import array
from collections import defaultdict, deque, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ddpify.runtime.snapshot_files import SnapshotFolder, parse
from ddpify.runtime.snapshots import Snapshots
from ddpify.runtime.state import CannotStore, encode, restore, take_left_out
from tests.runtime.ranks import Outcome, launch_script

TRAINING = """\
import os, random, signal, sys
import numpy as np, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from ddpify import runtime as dd

dd.init(snapshots="snapshots", snapshot_steps=1)
random.seed(1), np.random.seed(2), torch.manual_seed(3)
x, y = torch.randn(21, 4), torch.randn(21, 1)
loader = dd.shard(DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True))
net = dd.wrap(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1)))
adam = torch.optim.Adam(net.parameters(), lr=1e-2)
history, seen, done = [], 0, 0
die, how = int(os.environ.get("DIE", -1)), int(os.environ.get("HOW", signal.SIGKILL))
print("begins")
for epoch in dd.resumable(range(3), net, adam, history):
    seen = dd.snapshot(seen)
    total = 0.0
    for i, (a, b) in dd.resumable(enumerate(loader)):
        total, seen = dd.snapshot(total, seen)
        adam.zero_grad()
        loss = dd.mean(nn.functional.mse_loss(net(a), b)) * random.random() * np.random.rand()
        loss.backward()
        adam.step()
        total, seen, done = total + loss.item(), seen + 1, done + 1
        print(epoch, i, seen, f"{loss.item():.6f}")
        if done == die and dd.rank() == dd.world_size() - 1:
            os.kill(os.getpid(), how)
    history.append(total)
print(" ".join(f"{total:.6f}" for total in history))
if dd.is_main():
    torch.save(net.state_dict(), "end.pt")
"""


def train(
    folder: Path, text: str = TRAINING, *, ranks: int = 1, die: int = -1, how: int = signal.SIGKILL
) -> Outcome:
    """Rank 0 of a training, or of what is left of it."""
    folder.mkdir(exist_ok=True)
    script = folder / "train.py"
    script.write_text(text)
    return launch_script(script, ranks, env={"DIE": str(die), "HOW": str(int(how))})[0]


def parameters(folder: Path) -> list[torch.Tensor]:
    return list(torch.load(folder / "end.pt", weights_only=True).values())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, train(folder).stdout


def test_a_killed_training_goes_on_bit_for_bit(
    undisturbed: tuple[Path, str], tmp_path: Path
) -> None:
    killed = train(tmp_path, die=8)
    assert killed.code == -signal.SIGKILL
    again = train(tmp_path)
    assert again.code == 0, again.stderr
    assert "resuming from the snapshot" in again.stderr
    for one, other in zip(parameters(undisturbed[0]), parameters(tmp_path), strict=True):
        assert torch.equal(one, other)
    before, after = killed.stdout.splitlines(), again.stdout.splitlines()
    whole = undisturbed[1].splitlines()
    assert after == whole[-len(after) :]
    assert whole[: len(before)] == before
    assert not (tmp_path / "snapshots").exists()  # the training has come to its end


def test_a_termination_is_a_snapshot_and_an_end(
    undisturbed: tuple[Path, str], tmp_path: Path
) -> None:
    stopped = train(tmp_path, die=7, how=signal.SIGTERM)
    assert stopped.code == 128 + signal.SIGTERM
    assert stopped.stderr.splitlines()[-1] == "ddpify: SIGTERM: a snapshot is written; ending"
    again = train(tmp_path)
    assert stopped.stdout + again.stdout == undisturbed[1]


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_snapshot_is_named_and_the_one_before_it_used(
    damage: str, undisturbed: tuple[Path, str], tmp_path: Path
) -> None:
    train(tmp_path, die=8)
    newest = sorted((tmp_path / "snapshots").glob("*.pt"))[-1]
    data = bytearray(newest.read_bytes())
    data = data[: len(data) // 2] if damage == "cut" else data
    data[len(data) // 3] ^= 4
    newest.write_bytes(data)
    again = train(tmp_path)
    assert again.code == 0, again.stderr
    assert f"{newest.name} cannot be used" in again.stderr
    for one, other in zip(parameters(undisturbed[0]), parameters(tmp_path), strict=True):
        assert torch.equal(one, other)


def test_a_restart_with_another_number_of_ranks_has_the_same_batches(tmp_path: Path) -> None:
    text = TRAINING.replace("nn.Dropout(0.3), ", "")
    whole = train(tmp_path / "one", text)
    killed = train(tmp_path / "two", text, ranks=2, die=8)
    assert killed.code != 0
    again = train(tmp_path / "two", text)
    assert again.code == 0, again.stderr
    end = again.stdout.splitlines()
    assert end == whole.stdout.splitlines()[-len(end) :]


def test_a_full_disk_leaves_the_older_snapshot(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path / "snapshots")
    folder.check_writable()
    first = folder.write(1, {"a": torch.ones(10)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"."):
            folder.write(2, {"a": torch.ones(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(folder.path) == [first.name]
    found = folder.newest()
    assert found is not None and torch.equal(parse(found[1])["a"], torch.ones(10))


def test_a_full_disk_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = Snapshots(tmp_path / "snapshots", 1, 600)
    snapshots.folder.check_writable()
    full = OSError(errno.ENOSPC, "No space left on device")
    written: list[int] = []

    def write(steps: int, _: Any) -> None:
        if steps in (2, 3, 4):
            raise full
        written.append(steps)

    monkeypatch.setattr(snapshots.folder, "write", write)
    for snapshots.steps in range(1, 7):
        snapshots._write({})
    said = capsys.readouterr().err.splitlines()
    assert written == [1, 5, 6]
    assert len(said) == 2
    assert "at step 2" in said[0] and "No space left on device" in said[0]
    assert said[1] == "ddpify: snapshots are written again, at step 5"


def test_two_snapshots_are_kept(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    for step in range(1, 5):
        folder.write(step, {"step": step})
    assert [path.name for path in folder.files()] == ["step-000000003.pt", "step-000000004.pt"]
    assert torch.load(folder.files()[-1], weights_only=True) == {"step": 4}


def test_no_folder_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "snapshots").write_text("a file")
    done = train(tmp_path)
    assert done.code == 1
    assert done.stderr.splitlines()[-1].startswith("OSError: no snapshot can be written to")
    assert done.stdout == ""


def test_no_code_of_a_snapshot_runs(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.write(1, {"a": Path})  # pickled by reference to a class
    found = folder.newest()
    assert found is not None
    with pytest.raises(Exception, match="weights_only"):
        parse(found[1])


class Meter:
    def __init__(self) -> None:
        self.total, self.history, self.log = 0.0, [1], sys.stdout


def test_objects_are_restored_in_place() -> None:
    meter, counts, recent = Meter(), defaultdict(int, a=1), deque([1, 2], maxlen=2)
    held = meter.history
    generator, chance = torch.Generator().manual_seed(5), np.random.default_rng(5)
    codes = [encode(one) for one in (meter, counts, recent, generator, chance)]
    expected = torch.rand(3, generator=generator), chance.random(3)
    meter.total, counts["b"] = 7.0, 2
    meter.history.append(2)
    recent.append(9)
    for code, one in zip(codes, (meter, counts, recent, generator, chance), strict=True):
        assert restore(code, one) is one
    assert (meter.total, meter.history, meter.log) == (0.0, [1], sys.stdout)
    assert meter.history is held
    assert counts == {"a": 1} and counts["new"] == 0
    assert list(recent) == [1, 2] and recent.maxlen == 2
    assert torch.equal(torch.rand(3, generator=generator), expected[0])
    assert (chance.random(3) == expected[1]).all()


def test_a_module_keeps_gradients_and_what_is_frozen() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    net[0].bias.requires_grad_(False)
    net[1].eval()
    net(torch.randn(3, 2)).sum().backward()
    code = encode(net)
    fresh = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    restore(code, fresh)
    for one, other in zip(net.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(one, other) and one.requires_grad == other.requires_grad
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None and other.grad is not None:
            assert torch.equal(one.grad, other.grad)
    assert (fresh[0].training, fresh[1].training) == (True, False)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.calls, self.seen = nn.Dropout(0.5), 0, [0]
        self.last: torch.Tensor
        self.register_buffer("last", torch.zeros(1), persistent=False)


def test_a_module_keeps_what_its_state_dict_leaves_out() -> None:
    net, fresh = Counting(), Counting()
    net.drop.p, net.calls, net.seen, net.last = 0.1, 3, [1, 2], torch.ones(1)
    restore(encode(net), fresh)
    assert (fresh.drop.p, fresh.calls, fresh.seen, float(fresh.last)) == (0.1, 3, [1, 2], 1.0)


class Phase(enum.Enum):
    WARM, COLD = 1, 2


class Slotted:
    __slots__ = ("count", "tensor")

    def __init__(self, count: int) -> None:
        self.count, self.tensor = count, torch.full((1,), count)


Pair = namedtuple("Pair", "a b")


def test_values_that_are_made_anew() -> None:
    values = [Phase.COLD, Pair(1, [2]), frozenset({1}), bytearray(b"a"), array("d", [1.0]), len]
    olds = [Phase.WARM, None, None, bytearray(), array("d"), None]
    for value, old in zip(values, olds, strict=True):
        found = restore(encode(value), old)
        assert (found, type(found)) == (value, type(value))
    assert Phase.WARM.name == "WARM"
    fresh = Slotted(0)
    restore(encode(Slotted(2)), fresh)
    assert (fresh.count, float(fresh.tensor)) == (2, 2.0)


def test_objects_that_a_round_makes_are_made_again() -> None:
    made = [Slotted(3)]
    again = restore(encode(made), [])
    assert (type(again[0]), again[0].count) == (Slotted, 3)
    with pytest.raises(RuntimeError, match=r"the state of value\[0\], which .* has not made"):
        restore(encode([Meter()]), [])  # what it logs to has no plain form


def test_what_is_left_out_is_named_once() -> None:
    class Logged(Meter):
        pass

    encode([Logged(), Logged()])
    (named,) = (one for one in take_left_out() if "Logged" in one)
    assert ".log (" in named
    encode(Logged())
    assert take_left_out() == []


def test_keys_that_are_parameters_are_known_by_their_places() -> None:
    net, fresh = nn.Linear(1, 1), nn.Linear(1, 1)
    momenta = {one: torch.full_like(one, 3.0) for one in net.parameters()}
    others = {one: torch.zeros_like(one) for one in fresh.parameters()}
    restore(encode(momenta), others)
    assert [float(others[one].detach()) for one in fresh.parameters()] == [3.0, 3.0]


def test_plain_values_come_back_as_they_were() -> None:
    values: tuple[Any, ...] = (
        1,
        2.5,
        "a",
        None,
        True,
        (1, [2, {"b": {3}}]),
        np.float32(1.5),
        np.arange(3),
        b"x",
    )
    for value in values:
        found = restore(encode(value), None)
        assert type(found) is type(value)
        assert np.array_equal(found, value) if isinstance(value, np.ndarray) else found == value
    state = random.Random(4)
    code = encode(state)
    first = state.random()
    assert restore(code, state).random() == first


def test_what_has_no_plain_form_is_named() -> None:
    with pytest.raises(CannotStore, match=r"value\['f'\]\[0\] is a builtins.generator"):
        encode({"f": [(i for i in "ab")]})
