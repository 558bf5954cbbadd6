"""How ranks start, fail and end; and a plain python run, where nothing is done."""

import functools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ddpify import runtime as dd
from ddpify.runtime import process
from tests.runtime.ranks import Outcome, command, launch, launch_script, run, torchrun


def _place() -> tuple[Any, ...]:
    dd.init()  # a second call does nothing
    dd.barrier()
    return dd.rank(), dd.local_rank(), dd.world_size(), dd.is_main(), str(dd.device())


def test_every_rank_knows_its_place() -> None:
    device = "cpu" if not torch.accelerator.is_available() else None
    assert run(_place, 1) == [
        (0, 0, 1, True, device or f"{torch.accelerator.current_accelerator()}:0")
    ]
    if device:
        assert run(_place, 2) == [(0, 0, 2, True, "cpu"), (1, 1, 2, False, "cpu")]


def _alone() -> None:
    model, tensor = nn.BatchNorm1d(2), torch.ones(2)
    assert not dist.is_initialized()
    assert dd.wrap(model) is model
    assert type(model) is nn.BatchNorm1d
    assert dd.unwrap(model) is model
    for function in (dd.mean, dd.sum, dd.gather):
        assert function(tensor) is tensor
    with dd.local_main_first():
        dd.barrier()
    assert sys.excepthook is sys.__excepthook__


def test_alone_nothing_is_done() -> None:
    run(_alone, 1)


def _with_an_old_torch() -> str:
    del torch.accelerator
    process._world = None
    try:
        dd.init()
    except RuntimeError as error:
        return str(error)
    return ""


def test_an_old_torch_is_named() -> None:
    assert "needs torch 2.6 or later" in run(_with_an_old_torch, 1)[0]


def _print() -> None:
    print("once")
    os.system("echo from a subprocess")
    print("an error", file=sys.stderr)


def test_only_rank_0_prints() -> None:
    outcomes = launch(_print, 3)
    assert sorted(outcomes[0].stdout.split("\n")) == ["", "from a subprocess", "once"]
    assert [o.stdout for o in outcomes[1:]] == ["", ""]
    assert [o.stderr.count("an error") for o in outcomes] == [1, 1, 1]


def _wait_for_others() -> None:
    dd.sum(1)
    dd.barrier()


def _fail_on_rank_1() -> None:
    if dd.rank() == 1:
        raise ZeroDivisionError("the cause")
    print("printed before")
    _wait_for_others()


def _exit_on_rank_1() -> None:
    if dd.rank() == 1:
        os._exit(3)
    _wait_for_others()


def test_one_rank_that_fails_ends_all_within_seconds() -> None:
    start = time.monotonic()
    outcomes = launch(_fail_on_rank_1, 3)
    assert time.monotonic() - start < 60  # the group's own timeout is minutes
    assert [o.code for o in outcomes] == [1, 1, 1]
    lines = outcomes[1].stderr.splitlines()
    assert lines[0] == "[rank 1] Traceback (most recent call last):"
    assert lines[-1] == "[rank 1] ZeroDivisionError: the cause"
    assert outcomes[0].stdout == "printed before\n"


def test_one_rank_that_dies_ends_all_within_seconds() -> None:
    start = time.monotonic()
    assert [o.code for o in launch(_exit_on_rank_1, 3)] == [1, 3, 1]
    assert time.monotonic() - start < 60  # the group's own timeout is minutes


def _fail_on_rank_0() -> None:
    if dd.rank() == 0:
        raise ZeroDivisionError("the cause")
    _wait_for_others()


def test_without_rank_0_and_its_store_the_others_say_so_once() -> None:
    _, other = launch(_fail_on_rank_0, 2)
    last = other.stderr.splitlines()[-1]
    assert last.startswith("[rank 1] ended because of rank 0: ")
    assert other.stderr.count("TCPStore.cpp") <= 2


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_an_interrupt_has_its_own_exit_code() -> None:
    assert [o.code for o in launch(_interrupted, 2)] == [130, 130]


def _late() -> None:
    if dd.rank() == 0:
        time.sleep(4)
    dd.barrier()


def test_a_rank_that_waits_too_long_fails() -> None:
    outcomes = launch(_late, 2, env={"DDPIFY_TIMEOUT": "1"})
    assert [o.code for o in outcomes] == [1, 1]
    assert "imed out" in outcomes[1].stderr


def _python(code: str, env: dict[str, str], folder: Path) -> Outcome:
    script = folder / "script.py"
    script.write_text("from ddpify import runtime as dd\n" + code)
    return launch_script(script, env=env)[0]


LAUNCH = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "1",
}


@pytest.mark.parametrize(
    ("env", "texts"),
    [
        (
            {"RANK": "0"},
            ["WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not set", "torchrun"],
        ),
        ({"WORLD_SIZE": "2"}, ["RANK, LOCAL_RANK", "torchrun"]),
        ({**LAUNCH, "MASTER_PORT": ""}, ["MASTER_PORT is not set"]),
        ({**LAUNCH, "LOCAL_RANK": "x"}, ["LOCAL_RANK='x'", "not a number"]),
    ],
)
def test_a_broken_launch_is_an_error_with_a_remedy(
    env: dict[str, str], texts: list[str], tmp_path: Path
) -> None:
    done = _python("dd.init()", env, tmp_path)
    assert done.code == 1
    for text in texts:
        assert text in done.stderr


def test_more_ranks_than_accelerators_is_an_error_before_anything_waits(tmp_path: Path) -> None:
    fake = "import torch\ntorch.cuda.device_count = lambda: 1\n"
    fake += "from ddpify.runtime import process\nprocess._accelerator = lambda: 'cuda'\n"
    done = _python(fake + "dd.init()", {**LAUNCH, "LOCAL_WORLD_SIZE": "2"}, tmp_path)
    assert done.code == 1
    assert "2 ranks were started on this node, which has 1 cuda device" in done.stderr
    assert "--nproc-per-node" in done.stderr


@pytest.mark.parametrize(("backend", "error"), [("gloo", ""), ("nccl", "it may be gloo")])
def test_ranks_may_share_accelerators_over_gloo(backend: str, error: str, tmp_path: Path) -> None:
    fake = "import torch\ntorch.cuda.device_count = lambda: 1\nfrom ddpify.runtime import process\n"
    env = {**LAUNCH, "LOCAL_WORLD_SIZE": "2", "DDPIFY_BACKEND": backend}
    done = _python(fake + "process._check_accelerators('cuda')", env, tmp_path)
    assert (done.code == 0) == (not error) and error in done.stderr


@pytest.mark.parametrize(
    "call", ["rank()", "mean(1)", "shard([])", "save(1, 'x')", "device()", "wrap(None)"]
)
def test_a_call_before_init_is_an_error(call: str) -> None:
    # Taken for a single process, every rank would train for itself.
    run(functools.partial(_before_init, call), 1)


def _before_init(call: str) -> None:
    process._world = None
    os.environ.update(LAUNCH)
    if call == "mean(1)":  # identity outside of a sharded loop, which there cannot be yet
        assert dd.mean(1) == 1
        return
    with pytest.raises(RuntimeError, match=r"call ddpify's init\(\)"):
        eval(f"dd.{call}", {"dd": dd})


SCRIPT = """
import multiprocessing, os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from ddpify import runtime as dd

os.write(1, b"module\\n")  # whole, beside those of the other processes
dd.init()

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    data = TensorDataset(torch.randn(23, 4), torch.randn(23, 1))
    context = multiprocessing.get_context("spawn")
    loader = dd.shard(
        DataLoader(data, 5, True, num_workers=1, multiprocessing_context=context,
                   persistent_workers=True)
    )
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = dd.wrap(model)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = dd.mean(nn.functional.mse_loss(model(x), y))
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.10f}")
    dd.save(model.state_dict(), "model.pt")
    if len(sys.argv) > 1 and dd.rank() == 1:
        raise SystemError("on purpose")
    dd.barrier()
"""


def _script(folder: Path, arguments: list[str], ranks: int) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(SCRIPT)
    start = torchrun(ranks) if ranks else []
    return command([*start, "script.py", *arguments], folder=folder)


@pytest.mark.torchrun
def test_torchrun_prints_and_saves_what_python_does(tmp_path: Path) -> None:
    states, outputs = [], []
    for ranks in (0, 1, 2):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        done = _script(folder, [], ranks)
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr
        outputs.append([line for line in done.stdout.splitlines() if line != "module"])
        states.append(torch.load(folder / "model.pt"))
        assert sorted(os.listdir(folder)) == ["model.pt", "script.py"]
    assert outputs[1:] == outputs[:1] * 2
    assert len(outputs[0]) == 2
    for state in states[1:]:
        for key, value in states[0].items():
            torch.testing.assert_close(state[key], value, rtol=1e-11, atol=1e-12)


@pytest.mark.torchrun
def test_torchrun_ends_when_one_rank_fails(tmp_path: Path) -> None:
    start = time.monotonic()
    done = _script(tmp_path, ["fail"], 2)
    assert done.returncode == 1
    assert "[rank 1] SystemError: on purpose" in done.stderr
    assert time.monotonic() - start < 60  # the group's own timeout is minutes


@pytest.mark.parametrize(
    ("size", "asked", "given"),
    [
        (2, None, "cuda:1"),
        (2, "cuda:0", "cuda:1"),
        (2, "cuda", "cuda:1"),
        (2, 0, "cuda:1"),
        (2, "cpu", "cpu"),
        (1, "cuda:3", "cuda:3"),
        (1, "cuda", "cuda:1"),
        (1, "mps", "cuda:1"),
    ],
)
def test_the_device_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, size: int, asked: str | int | None, given: str
) -> None:
    place = process.World(1, 1, size, torch.device("cuda", 1))
    monkeypatch.setattr(process, "_world", place)
    assert process.device(asked) == torch.device(given)


def test_without_an_accelerator_every_device_is_the_cpu() -> None:
    assert process.device("cuda:0") == torch.device("cpu")
