"""`ddpify plan`: what the script builds, measured, and the memory that follows."""

from __future__ import annotations

import json
from pathlib import Path

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
