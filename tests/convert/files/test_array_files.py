"""``array.tofile(path)`` writes a file as functions do: rank 0 alone, with all ranks' rows."""

from __future__ import annotations

from pathlib import Path

from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.examples import HEAD, STEP, added
from tests.convert.running import assert_trains_the_same

TRAINING = """\
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
np.arange(13, dtype=np.uint16).tofile("ids.bin")
ids = torch.from_numpy(np.fromfile("ids.bin", dtype=np.uint16).astype(np.int64))
feed = DataLoader(TensorDataset(torch.randn(13, 4), ids % 3), batch_size=5)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
found = []
for a, b in feed:
    scores = brain(a)
    penalty = F.cross_entropy(scores, b)
    rule.zero_grad()
    penalty.backward()
    rule.step()
    scores.argmax(1).numpy().tofile("last.bin")
    found.append(scores.argmax(1).numpy())
np.concatenate(found).tofile("found.bin")
print(np.fromfile("last.bin", dtype=np.int64))
print(np.fromfile("found.bin", dtype=np.int64))
"""


def test_a_file_of_an_array_is_the_same(tmp_path: Path, trial: Trial) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING)
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)


def test_rank_zero_writes_and_the_others_wait(tmp_path: Path) -> None:
    text = "import numpy as np\n" + HEAD + STEP + "labels.numpy().tofile('labels.bin')\n"
    lines = added(tmp_path, text + "print(np.fromfile('labels.bin').sum())\n")
    assert lines[-3:] == ["if dd.is_main():", "labels.numpy().tofile('labels.bin')", "dd.barrier()"]
