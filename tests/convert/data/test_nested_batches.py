"""Parts of a batch that are several tensors, since each sample has a tuple or list there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from tests.convert.examples import HEAD, added

DATA = """\
class Scales(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        coarse, fine = features[i, :2], features[i]
        GIVEN


feed = DataLoader(Scales(), batch_size=6)
brain = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 4)])
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""
STEP = """\
for x, y in feed:
    small, large = y[0].to("cpu"), y[1].to("cpu")
    penalty = F.mse_loss(brain[0](x), small) + F.mse_loss(brain[1](x), large)
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    "given",
    [
        "return features[i], (coarse, fine)",
        "return features[i], [coarse, fine]",
        "scales = [part for part in (coarse, fine)]\n        return features[i], tuple(scales)",
        "scales = [coarse]\n        scales.append(fine)\n        return features[i], scales",
        "scales = [coarse, fine]\n        if i < 0:\n            parts = more(scales)\n"
        "            scales = parts[1:]\n        return features[i], scales",
    ],
)
def test_items_of_such_a_part_are_rows(tmp_path: Path, given: str) -> None:
    lines = added(tmp_path, HEAD + DATA.replace("GIVEN", given) + STEP)
    whole = "".join(lines).replace(" ", "")
    assert "dd.mean(F.mse_loss(brain[0](x),small)+F.mse_loss(brain[1](x),large))" in whole
    assert "gather" not in whole


@pytest.mark.parametrize(
    "given",
    [
        "return features[i], torch.stack([coarse, coarse])",
        "scales = [coarse]\n        scales = torch.cat(scales)\n        return features[i], scales",
    ],
)
def test_items_of_a_tensor_are_single_samples(tmp_path: Path, given: str) -> None:
    lines = added(tmp_path, HEAD + DATA.replace("GIVEN", given) + STEP)
    assert 'small, large = dd.gather(y)[0].to("cpu"), dd.gather(y)[1].to("cpu")' in lines


def test_a_collate_function_of_the_script_decides_itself(tmp_path: Path) -> None:
    text = DATA.replace("GIVEN", "return features[i], (coarse, fine)")
    collate = (
        "def together(samples):\n    return torch.stack([a for a, _ in samples]), samples\n\n\n"
    )
    text = text.replace("feed =", collate + "feed =").replace("=6)", "=6, collate_fn=together)")
    with pytest.raises(DdpifyError):
        added(tmp_path, HEAD + text + STEP)


MOVED = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def together(samples):
    rows, words, kinds = zip(*samples)
    return torch.stack(rows), torch.cat(words), torch.cat(kinds)


samples = [(torch.randn(4), torch.ones(i % 3 + 1), torch.tensor([i % 3])) for i in range(22)]
feed = DataLoader(samples, batch_size=5, collate_fn=together)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for batch in feed:
    a, words, b = MOVED
    count, width = a.size()
    penalty = F.cross_entropy(brain(a.view(count, width * 1)), b.view(-1))
    rule.zero_grad()
    penalty.backward()
    rule.step()
    print(count, width, len(words))
"""


@pytest.mark.parametrize("moved", ["[x.to('cpu') for x in batch]", "(x.cpu() for x in batch)"])
def test_parts_that_a_comprehension_moves_stay_apart(tmp_path: Path, moved: str) -> None:
    lines = added(tmp_path, MOVED.replace("MOVED", moved))
    assert "print(dd.sum(count), width, dd.sum(len(words)))" in lines


NAMED = """\
class Named(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return {"x": features[i], "kind": i % 3}


brain = nn.Linear(4, 3)
feed = DataLoader(Named(), batch_size=6)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 0.3, 0.5]))
for batch in feed:
    kinds = TAKEN
    penalty = criterion(brain(batch["x"]), kinds)
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    "taken", ['batch.pop("kind")', 'batch.pop("kind", None)', 'batch.get("kind")']
)
def test_a_part_that_is_taken_out_by_its_name_is_not_gathered(tmp_path: Path, taken: str) -> None:
    lines = added(tmp_path, HEAD + NAMED.replace("TAKEN", taken))
    assert not any("gather" in line for line in lines)
    assert "weight=dd.target_weight(kinds, criterion.weight)" in "".join(lines)
