"""`ddpify plan`: what the script builds, measured, and the memory that follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpify.sizing.measuring import Measurement, measure
from ddpify.sizing.table import plan_of, render
from tests.conftest import FIXTURES, Ddpify

SCRIPT = """\
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        return self.two(self.one(x))

model = nn.Sequential(nn.Embedding(100, 64), *(Block() for _ in range(int(sys.argv[1]))))
model[0].requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
print("before")
for batch in DataLoader(torch.zeros(8, 2), 4):
    raise SystemExit("a batch was asked for")
"""
BLOCK = 2 * (64 * 64 + 64) * 4
EMBEDDING = 100 * 64 * 4


def test_a_plan_is_measured(ddpify: Ddpify, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = ddpify("plan", script, "--json", "--memory", "0.0005", "--", "3")
    assert done.code == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["parameters"] == 3 * BLOCK + EMBEDDING
    assert plan["gradients"] == 3 * BLOCK
    assert plan["optimizer_states"] == 9 * BLOCK
    assert (plan["models"], plan["optimizers"]) == (["Sequential"], ["AdamW"])
    rows = {row["gpus"]: row for row in plan["table"]}
    assert list(rows) == [2**power for power in range(10)]
    assert rows[2]["ddp"] == 18 * BLOCK + EMBEDDING
    # Parts that 4 divides; at the peak the embedding and two blocks whole, and a block's gradients.
    divided = (15 * BLOCK + EMBEDDING) // 4
    assert rows[4]["fsdp"] == divided + 2 * EMBEDDING + 3 * BLOCK
    assert [rows[n]["strategy"] for n in (1, 2, 512)] == ["ddp", "fsdp", "fsdp"]


def test_the_text_says_the_same(ddpify: Ddpify) -> None:
    done = ddpify("plan", FIXTURES / "functions" / "train.py", "--memory", "80")
    assert done.code == 0, done.stderr
    assert "On GPUs of 80 GiB model and optimizer may fill 65%, 52 GiB" in done.stdout
    assert "DistributedDataParallel fits." in done.stdout


def test_a_script_that_fails_is_an_error(ddpify: Ddpify, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise ValueError('no data here')\n")
    done = ddpify("plan", script)
    assert done.code == 1
    assert "no data here" in done.stderr
    script.write_text("print('nothing')\n")
    assert "no model with an optimizer" in ddpify("plan", script).stderr
    assert ddpify("plan", tmp_path / "none.py").code == 2


STEP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in DataLoader(TensorDataset(torch.zeros(64, 8)), 16):
    with torch.no_grad():
        model(x)
    loss = model(x).sum()
    loss.backward()
    raise RuntimeError("after backward")
"""


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Measurement]:
    script = tmp_path_factory.mktemp("plan") / "train.py"
    script.write_text(STEP)
    return script, measure(script, (), 300)


def test_activations_are_what_backward_needs(stepped: tuple[Path, Measurement]) -> None:
    plan = plan_of(*stepped, memory=100_000)
    assert plan["batch"] == 16
    # The input, which the first layer needs, and the output of tanh, which it and the last need.
    assert plan["activations"] == 4 * 16 * (8 + 32)
    assert stepped[1].smaller == (8, 4 * 8 * (8 + 32))
    assert (stepped[1].per_sample, stepped[1].fixed) == (4 * (8 + 32), 0)
    rows = {row["gpus"]: row for row in plan["table"]}
    assert rows[4]["activations"] == plan["activations"] // 4
    free = 0.9 * plan["device_memory"] - rows[1]["ddp"]
    assert rows[1]["largest_batch"] == int(free / (4 * 40))


def test_rows_end_where_ranks_have_no_sample(stepped: tuple[Path, Measurement]) -> None:
    lines = render(plan_of(*stepped, memory=None)).splitlines()
    (head,) = (n for n, line in enumerate(lines) if "largest batch" in line)
    gpus = [line.split()[0] for line in lines[head + 1 : lines.index("", head)]]
    assert gpus == ["1", "2", "4", "8", "16"]


def test_parts_on_the_host(stepped: tuple[Path, Measurement]) -> None:
    plan = plan_of(*stepped, memory=None, offload=True)
    row = plan["table"][2]
    # On the device: parameters and gradients of the only unit, whole; SGD has no states.
    assert row["offloaded"] == 2 * plan["parameters"]
    assert row["fsdp"] == row["offloaded"] + row["host"]
    assert "CPUOffloadPolicy" in render(plan) and "on the host" in render(plan)


def test_activations_under_autocast(stepped: tuple[Path, Measurement]) -> None:
    found = measure(stepped[0], (), 300, "bfloat16")
    # The last layer's weights are kept in bfloat16, too: the first needs no gradient of its input.
    assert found.activations == 2 * (16 * (8 + 32) + 32)
    assert (found.per_sample, found.fixed) == (2 * (8 + 32), 2 * 32)
    assert found.activations_on(4) == 2 * (4 * (8 + 32) + 32)
    single, half = (plan_of(stepped[0], found, None, kind) for kind in ("float32", "bfloat16"))
    gathered = single["parameters"] // 2
    assert single["table"][1]["fsdp"] - half["table"][1]["fsdp"] == gathered


def test_a_step_that_fails_leaves_the_rest(ddpify: Ddpify, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(STEP.replace("loss =", "raise OSError\n    loss ="))
    done = ddpify("plan", script)
    assert done.code == 0 and "Activations were not measured" in done.stdout
    assert "parameters" in done.stdout
