"""Targets whose rows are filled one by one, as those of detection losses are."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import Refusal, convert_file
from tests.convert.running import assert_trains_the_same

TRAINING = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
samples = [(torch.randn(4), torch.rand(1 + i % 3, 2)) for i in range(13)]
anchors = torch.rand(5, 2)


def beside(batch):
    pictures, boxes = [], []
    for sample in batch:
        pictures.append(sample[0])
        boxes.append(sample[1])
    return torch.stack(pictures, 0), boxes


def match(truths, offsets, marks, place):
    far = (truths[:, None, :] - anchors[None]).abs().sum(-1)
    nearest, which = far.min(0)
    nearest.index_fill_(0, far.min(1)[1], 0.1)
    found = truths[which] - anchors
    found[nearest > 0.7] = 0
    offsets[place] = found
    marks[place] = (nearest <= 0.7).long()


def judge(scores, boxes):
    count = scores.size(0)
    offsets = torch.zeros(count, 5, 2)
    marks = torch.LongTensor(count, 5)
    for place in range(count):
        match(boxes[GIVEN], offsets, marks, place)
    chosen = marks > 0
    chosen_both = chosen.unsqueeze(2).expand_as(scores)
    loss = F.smooth_l1_loss(scores[chosen_both], offsets[chosen_both], reduction="sum")
    return loss / marks.sum().float()


feed = DataLoader(samples, batch_size=5, shuffle=True, collate_fn=beside)
brain = nn.Linear(4, 10)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for epoch in range(2):
    for pictures, boxes in feed:
        loss = judge(brain(pictures).view(-1, 5, 2), boxes)
        rule.zero_grad()
        loss.backward()
        rule.step()
        print(f"{loss.item():.6f}")
"""


def test_a_function_that_gets_each_samples_place_fills_its_row(
    tmp_path: Path, trial: Trial
) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING.replace("GIVEN", "place").replace(".float()", ""))
    converted.write_bytes(convert_file(script).data)
    assert "dd.gather" not in converted.read_text()
    assert_trains_the_same(trial, script, converted)


ROWS = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

feed = DataLoader(TensorDataset(torch.randn(13, 4), torch.randn(13, 3)), batch_size=5)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)


def put(wanted, rows, place):
    wanted[place] = rows[0]


for x, y in feed:
    wanted = torch.zeros(len(x), 3)
    for i in range(len(x)):
        WRITTEN
    loss = F.mse_loss(brain(x), wanted)
    loss.backward()
    rule.step()
"""


@pytest.mark.parametrize("written", ["wanted[i] = y[0]", "put(wanted, y, i)"])
def test_the_first_sample_of_all_is_in_no_ranks_row(tmp_path: Path, written: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(ROWS.replace("WRITTEN", written))
    with pytest.raises(Refusal, match="write into the row at one position"):
        convert_file(script)


LOADED = """\
if "KEPT" in os.environ:
    brain = torch.load(os.environ["KEPT"], weights_only=False)["brain"]
else:
    brain = nn.Sequential(nn.Linear(4, 10), nn.Unflatten(1, (5, 2)))
"""


def test_rows_are_counted_alike_where_the_model_may_come_from_a_file(
    tmp_path: Path, trial: Trial
) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    text = TRAINING.replace("GIVEN", "place").replace(".view(-1, 5, 2)", "")
    script.write_text("import os\n" + text.replace("brain = nn.Linear(4, 10)\n", LOADED))
    converted.write_bytes(convert_file(script).data)
    assert "dd.gather" not in converted.read_text()
    assert_trains_the_same(trial, script, converted)


FILLED = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
feed = DataLoader(TensorDataset(torch.randn(16, 4), torch.randn(16, 3)), batch_size=6)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for x, y in feed:
    wanted = torch.zeros(len(x), 3)
    some = COUNT
    for i in range(some):
        wanted[i] = y[i] * 2
    loss = F.mse_loss(brain(x), wanted)
    rule.zero_grad()
    loss.backward()
    rule.step()
    print(f"{loss.item():.6f}")
"""


@pytest.mark.parametrize(
    "count", ["len(x) // 2", "int(len(x) * 0.5)", "len(x) if len(feed) > 9 else 3"]
)
def test_some_rows_of_the_batch_are_those_of_all_ranks(trial: Trial, count: str) -> None:
    verdict = trial.verdict(FILLED.replace("COUNT", count))
    assert verdict.outcome is Outcome.SAME, verdict.detail


LISTED = """\
    listed = [y[i] * 2 for i in range(COUNT)]
    wanted = torch.cat([torch.stack(listed), torch.zeros(len(x) - len(listed), 3)])
"""


@pytest.mark.parametrize("count", ["len(x) // 2", "1, len(x)", "0, len(x), 2", "len(x)"])
def test_a_list_of_some_rows_of_the_batch_has_those_of_all_ranks(trial: Trial, count: str) -> None:
    before, _, after = FILLED.partition("    wanted")
    step = after[after.index("    loss") :]
    verdict = trial.verdict(before + LISTED.replace("COUNT", count) + step)
    assert verdict.outcome is Outcome.SAME, verdict.detail
