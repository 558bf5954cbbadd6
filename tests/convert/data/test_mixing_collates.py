"""Collate functions that compute something of all samples of a batch, converted and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import Options, convert_file
from ddpify.errors import DdpifyError
from tests.convert.running import assert_trains_the_same

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, default_collate

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Batch:
    def __init__(self, samples):
        self.x = torch.stack([x for x, _ in samples])
        self.y = torch.tensor([int(y) for _, y in samples])
        self.count = len(samples)


def collate(samples):
    COLLATE


samples, kinds = torch.randn(17, 5), torch.randint(0, 3, (17,))
feed = DataLoader(TensorDataset(samples, kinds), batch_size=6, shuffle=True, collate_fn=MADE)
net = nn.Linear(5, 3)
rule = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for batch in feed:
    USED
    rule.zero_grad()
    loss = F.cross_entropy(net(x), y) * scale
    loss.backward()
    rule.step()
    print(f"{loss.item():.6f}")
"""
STACKED = (
    "x = torch.stack([x for x, _ in samples])\n    y = torch.tensor([int(y) for _, y in samples])\n"
)
TAKEN = "(x, y), scale = batch, 1.0"
MIXING = [
    "x = x - x.mean(0)",
    "x = x.flip(0)",
    "x = x * len(x)",
    "x = x.softmax(dim=-2)",
    "x = x / x.max()",
    "x = x + x[0]",
    "x = x - sum(x for x, _ in samples) / len(samples)",
    "x = x - default_collate(samples)[0].mean(0)",
    "x = x - torch.stack(list(zip(*samples))[0]).mean(0)",
    "x = x + x.gather(0, torch.ones(1, 5, dtype=torch.long))",
]


def _converted(folder: Path, collate: str, used: str, made: str = "collate") -> tuple[Path, str]:
    text = SCRIPT.replace("COLLATE", collate).replace("USED", used).replace("MADE", made)
    script = folder / "script.py"
    script.write_text(text, encoding="utf-8")
    converted = folder / "converted.py"
    converted.write_bytes(convert_file(script, Options()).data)
    return converted, "".join(converted.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("line", MIXING)
def test_a_function_that_mixes_samples_gets_whole_batches(
    tmp_path: Path, trial: Trial, line: str
) -> None:
    converted, text = _converted(tmp_path, f"{STACKED}    {line}\n    return x, y", TAKEN)
    assert 'collate_fn=collate),collate="global")' in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


@pytest.mark.parametrize(
    "line", ["x = x * 2", "x = x.softmax(1)", "x = x - x.mean(1, keepdim=True)"]
)
def test_a_function_of_each_sample_gets_a_ranks_samples(
    tmp_path: Path, trial: Trial, line: str
) -> None:
    converted, text = _converted(tmp_path, f"{STACKED}    {line}\n    return x, y", TAKEN)
    assert "dd.shard(DataLoader" in text and "collate=" not in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


def test_a_statistic_beside_the_rows_stays_whole(tmp_path: Path, trial: Trial) -> None:
    collate = f"{STACKED}    return x, y, x.abs().mean(0)"
    used = "x, y, mean = batch\n    scale = mean.sum()"
    converted, text = _converted(tmp_path, collate, used)
    assert 'collate="global",dim=(0,0,None)' in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


def test_a_dictionary_with_a_number_of_samples(tmp_path: Path, trial: Trial) -> None:
    collate = f'{STACKED}    return {{"x": x, "y": y, "count": len(samples)}}'
    used = 'x, y, scale = batch["x"], batch["y"], batch["count"] / 6'
    converted, text = _converted(tmp_path, collate, used)
    assert 'dim={"x":0,"y":0,"count":None}' in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


def test_an_object_that_holds_a_batch(tmp_path: Path, trial: Trial) -> None:
    used = "x, y, scale = batch.x, batch.y, batch.count / 6"
    converted, text = _converted(tmp_path, "pass", used, made="Batch")
    assert 'dim={"x":0,"y":0,"count":None}' in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


@pytest.mark.parametrize(
    "line",
    [
        "x = x.view(5, -1).flip(0).view(-1, 5)",
        "x = (x.reshape(5, -1) * torch.arange(1.0, 6.0)[:, None]).reshape(-1, 5)",
    ],
)
def test_a_view_that_cuts_across_samples(tmp_path: Path, trial: Trial, line: str) -> None:
    converted, _ = _converted(tmp_path, f"{STACKED}    {line}\n    return x, y", TAKEN)
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


@pytest.mark.parametrize(
    "line",
    [
        "goals = x.sum(1, keepdim=True)\n    scale = (net(x)[:, 0] - goals).square().mean()",
        "goals = x.sum(1)\n    scale = (net(x)[:, :1] - goals).square().mean()",
    ],
)
def test_a_column_beside_a_vector_pairs_the_samples(
    tmp_path: Path, trial: Trial, line: str
) -> None:
    goals, scale = line.split("\n    ")
    collate = f"{STACKED}    {goals}\n    return x, y, goals"
    used = f"x, y, goals = batch\n    {scale}"
    converted, _ = _converted(tmp_path, collate, used)
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


UNREAD = [
    "x = unread(torch.stack)([x for x, _ in samples]).flip(0)",
    "x = unread(torch.flipud)(x)",
    "x = x + unread(max)(*[float(x[0]) for x, _ in samples])",
    "x = unread(default_collate)(samples)[0].flip(0)",
]


@pytest.mark.parametrize("line", UNREAD)
def test_unread_code_gets_all_samples(tmp_path: Path, trial: Trial, line: str) -> None:
    hidden = "import pickle\n    unread = lambda f: pickle.loads(pickle.dumps(f))\n"
    collate = f"{hidden}    {STACKED}    {line}\n    return x, y"
    converted, text = _converted(tmp_path, collate, TAKEN)
    assert 'collate_fn=collate),collate="unread")' in text or 'collate="global")' in text
    assert_trains_the_same(trial, converted.with_name("script.py"), converted)


def test_where_the_rows_lie_must_be_known(tmp_path: Path) -> None:
    collate = f"{STACKED}    return unseen(x - x.mean(0)), x.t()"
    with pytest.raises(DdpifyError, match="the sample dimension of those is unknown"):
        _converted(tmp_path, collate, TAKEN)


PADDED = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_default_dtype(torch.float64)


class Boxes(Dataset):
    def __len__(self):
        return 11

    def __getitem__(self, i):
        torch.manual_seed(i)
        return {"img": torch.randn(3 + i % 3, 4), "boxes": torch.randn(1 + i % 3, 2), "scale": i}


def collate(data):
    most = np.array([len(one["img"]) for one in data]).max()
    images = torch.zeros(len(data), most, 4)
    boxes = torch.ones(len(data), max(len(one["boxes"]) for one in data), 2) * -9
    for i, one in enumerate(data):
        images[i, : len(one["img"])] = one["img"]
        boxes[i, : len(one["boxes"])] = one["boxes"]
    return {"img": images, "boxes": boxes, "scale": [one["scale"] for one in data]}


class Notes:
    def __init__(self):
        self.seen = []

    def last(self):
        return self.rule(self.seen[-1]) if self.seen else 0.0


torch.manual_seed(0)
loader = DataLoader(Boxes(), batch_size=4, collate_fn=collate, shuffle=True)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
notes = Notes()
notes.rule = abs
for epoch in range(2):
    print(notes.last())
    notes.rule = round
    for batch in loader:
        optimizer.zero_grad()
        boxes = batch["boxes"]
        kept = boxes[boxes[..., 0] != -9]
        loss = (net(batch["img"]).mean(1) - boxes.amax(1)).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}", batch["img"].shape, kept.sort(0)[0][:3].sum())
        notes.seen.append(loss.item())
"""


def test_padded_boxes_of_a_script_that_is_gone_over_again(tmp_path: Path, trial: Trial) -> None:
    """Where a batch was understood before, it is the same batch; its numbers are those of all."""
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(PADDED)
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)


NESTED = {
    "a tuple": ("x, (y, y.flip(0), 0.5)", "x, (y, other, scale) = batch"),
    "a dictionary": (
        '{"x": x, "by": {"y": y, "other": y.flip(0)}, "scale": 0.5}',
        'x, y, other, scale = batch["x"], batch["by"]["y"], batch["by"]["other"], batch["scale"]',
    ),
    "dictionaries in a tuple": (
        '(x, {"y": y, "other": (y.flip(0), 0.5)})',
        'x, y, (other, scale) = batch[0], batch[1]["y"], batch[1]["other"]',
    ),
}


@pytest.mark.parametrize(("given", "used"), NESTED.values(), ids=NESTED)
def test_the_rows_of_parts_of_parts(tmp_path: Path, trial: Trial, given: str, used: str) -> None:
    body = STACKED + f"    x = 0.5 * x + 0.5 * x.flip(0)\n    return {given}"
    both = "    scale = scale + scale * F.cross_entropy(net(x), other)\n    print(len(other))"
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    text = SCRIPT.replace("COLLATE", body).replace("MADE", "collate")
    script.write_text(text.replace("USED", used + "\n" + both))
    converted.write_bytes(convert_file(script, Options()).data)
    assert 'collate="global"' in converted.read_text()
    assert_trains_the_same(trial, script, converted)
