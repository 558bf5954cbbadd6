"""`ddpify plan`: what the script builds, measured, and the memory that follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ddpify.sizing.largest import search
from ddpify.sizing.measuring import Measurement, measure
from ddpify.sizing.models import step_temporaries
from ddpify.sizing.peak import Peak
from ddpify.sizing.steps import WORKSPACE
from ddpify.sizing.table import plan_of, readable, render
from tests.conftest import FIXTURES, Ddpify

pytestmark = pytest.mark.usefixtures("warm")

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
    assert "On GPUs of 80.0 GiB model and optimizer may fill 65%, 52.0 GiB" in done.stdout
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
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Measurement]]:
    script = tmp_path_factory.mktemp("plan") / "train.py"
    script.write_text(STEP)
    found = measure(script, (), 300)
    yield script, found
    found.close()


def test_activations_are_what_backward_needs(stepped: tuple[Path, Measurement]) -> None:
    plan = plan_of(*stepped, memory=10_000)
    assert plan["batch"] == 16
    # The input, which the first layer needs, and the output of tanh, which it and the last need.
    assert plan["activations"] == 4 * 16 * (8 + 32)
    assert stepped[1].smaller is not None
    half, kept = stepped[1].smaller
    assert (half, kept.activations) == (8, 4 * 8 * (8 + 32))
    assert stepped[1].per_sample == 4 * (8 + 32)


def test_the_largest_batch_leaves_room_for_the_peak_of_a_step(
    stepped: tuple[Path, Measurement],
) -> None:
    """At the first layer's gradients: batch, tanh's output, and its and the layer's gradients."""
    found = stepped[1]
    weights = 4 * (8 * 32 + 32)  # all gradients, of which the last layer's are there
    at_peak = 4 * (8 + 3 * 32) * 16
    assert found.tensors is not None and found.peak is not None
    assert found.tensors == pytest.approx(at_peak - weights, abs=4 * 16)
    assert found.peak - found.tensors == WORKSPACE
    plan = plan_of(*stepped, memory=WORKSPACE + 20_000 + WORKSPACE // 9)
    rows = {row["gpus"]: row for row in plan["table"]}
    assert rows[1]["step"] == found.peak
    free = 0.9 * plan["device_memory"] - rows[1]["ddp"] - found.peak
    assert rows[1]["largest_batch"] == pytest.approx(16 + free / (4 * (8 + 3 * 32)), abs=1)
    assert 16 < rows[1]["largest_batch"] < 64
    assert rows[4]["largest_batch"] == 64  # all that there are


def test_memory_counts_while_it_lives() -> None:
    own = torch.ones(1000)
    peak = Peak()
    with peak:
        peak.start([own])
        own[10:].clone()
        made = own + 1
        view = made[10:]
        view.mul_(2)
        del made
        for _ in range(3):
            own + view.sum()
    assert peak.most == 4000 + 4000 + 4


def test_steps_make_tensors_of_their_own() -> None:
    """Adam's foreach step takes the roots of all its second moments at once."""
    weights = [nn.Parameter(torch.ones(100)) for _ in range(9)]
    assert step_temporaries(torch.optim.Adam(weights)) == 3600
    assert step_temporaries(torch.optim.SGD(weights, momentum=0.9)) == 0
    assert step_temporaries(torch.optim.Adam(weights, foreach=False)) == 1200


def test_batches_are_tried_without_memory(stepped: tuple[Path, Measurement]) -> None:
    _, found = stepped
    assert found.steps is not None
    kept = found.steps.kept(100_000)
    assert kept is not None and kept.activations == 4 * 100_000 * (8 + 32)
    text = render(plan_of(*stepped, memory=2 * WORKSPACE))
    assert "all 64" in text and "batches in a step without memory" in text


def test_a_step_that_needs_values_is_calculated(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(STEP.replace("loss.backward", "print(loss.item())\n    loss.backward"))
    found = measure(script, (), 300)
    assert found.smaller is not None and found.smaller[1].activations == 4 * 8 * (8 + 32)
    text = render(plan_of(script, found, memory=10_000))
    assert "calculated from what batches of 16 and 8 keep" in text and "item" in text
    found.close()


@pytest.mark.parametrize(("limit", "guess"), [(100, 100), (100, 3), (7, 900), (0, 12), (1, 0)])
def test_search(limit: int, guess: int) -> None:
    tried: list[int] = []

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= limit

    assert search(fits, guess) == limit
    assert len(tried) == len(set(tried)) < 25


def shown(plan: dict[str, Any]) -> list[str]:
    lines = render(plan).splitlines()
    (head,) = (n for n, line in enumerate(lines) if line.split()[:1] == ["GPUs"])
    return [line.split()[0] for line in lines[head + 1 : lines.index("", head)]]


def test_rows_end_where_they_say_nothing(stepped: tuple[Path, Measurement]) -> None:
    """Where ranks have no sample each, and where what they use does not matter."""
    assert shown(plan_of(*stepped, memory=10_000)) == ["1", "2", "4", "8", "16", "More"]
    assert shown(plan_of(*stepped, memory=None)) == ["1", "2", "More"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(20, "20 B"), (1024, "1.00 KiB"), (203 << 20, "203 MiB"), (1 << 30, "1.00 GiB")],
)
def test_sizes_have_three_digits(size: int, text: str) -> None:
    assert readable(size) == text


def test_parts_on_the_host(stepped: tuple[Path, Measurement]) -> None:
    plan = plan_of(*stepped, memory=None, offload=True)
    row = plan["table"][2]
    # On the device: parameters and gradients of the only unit, whole; SGD has no states.
    assert row["offloaded"] == 2 * plan["parameters"]
    assert row["fsdp"] == row["offloaded"] + row["host"]
    assert "CPUOffloadPolicy" in render(plan) and "on the host" in render(plan)


def test_activations_under_autocast(stepped: tuple[Path, Measurement]) -> None:
    found = measure(stepped[0], (), 300, "bfloat16")
    found.close()
    # The last layer's weights are kept in bfloat16, too: the first needs no gradient of its input.
    assert found.activations == 2 * (16 * (8 + 32) + 32)
    assert found.per_sample == 2 * (8 + 32)
    single, half = (plan_of(stepped[0], found, None, kind) for kind in ("float32", "bfloat16"))
    gathered = single["parameters"] // 2
    assert single["table"][1]["fsdp"] - half["table"][1]["fsdp"] == gathered


def test_a_step_that_fails_leaves_the_rest(ddpify: Ddpify, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(STEP.replace("loss =", "raise OSError\n    loss ="))
    done = ddpify("plan", script)
    assert done.code == 0 and "Activations were not measured" in done.stdout
    assert "parameters" in done.stdout
