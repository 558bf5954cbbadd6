"""Queues of keys, as MoCo's, that a forward or a training loop fills."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.running import assert_trains_the_same

TRAINING = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Pair(nn.Module):
    def __init__(self, most=20):
        super().__init__()
        self.most = most
        self.one, self.other = nn.Linear(6, 4), nn.Linear(6, 4).requires_grad_(False)
        self.register_buffer("kept", F.normalize(torch.randn(4, most), dim=0))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def keep(self, keys):
        count = keys.shape[0]
        at = int(self.place)
        self.kept[:, at : at + count] = KEYS
        self.place[0] = (at + count) % self.most

    def forward(self, x, y):
        with torch.no_grad():
            for a, b in zip(self.one.parameters(), self.other.parameters()):
                b.data = b.data * 0.9 + a.data * 0.1
            key = F.normalize(self.other(y), dim=1)
        asked = F.normalize(self.one(x), dim=1)
        near = torch.einsum("nc,nc->n", [asked, key]).unsqueeze(-1)
        far = torch.einsum("nc,ck->nk", [asked, self.kept.clone().detach()])
        scores = torch.cat([near, far], dim=1) / 0.07
        self.keep(key)
        return scores, torch.zeros(scores.shape[0], dtype=torch.long)


data = TensorDataset(torch.randn(31, 6), torch.randn(31, 6))
feed = DataLoader(data, batch_size=5, drop_last=True)
pair = Pair()
rule = torch.optim.SGD(pair.parameters(), lr=0.1)
for x, y in feed:
    scores, wanted = pair(x, y)
    penalty = F.cross_entropy(scores, wanted)
    rule.zero_grad()
    penalty.backward()
    rule.step()
    print(f"{penalty.item():.6f}")
"""


@pytest.mark.parametrize("keys", ["keys.T", "keys.transpose(0, 1)"])
def test_the_columns_of_all_ranks_are_kept(tmp_path: Path, trial: Trial, keys: str) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING.replace("KEYS", keys))
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)


IN_THE_LOOP = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
feed = DataLoader(TensorDataset(torch.randn(14, 6), torch.randn(14, 6)), batch_size=4)
one, other = nn.Linear(6, 5), nn.Linear(6, 5).requires_grad_(False)
rule = torch.optim.SGD(one.parameters(), lr=0.1)
kept = F.normalize(torch.randn(12, 5), dim=1)
for x, y in feed:
    count = x.shape[0]
    asked, key = F.normalize(one(x), dim=1), F.normalize(other(y), dim=1)
    near = torch.bmm(asked.view(count, 1, 5), key.view(count, 5, 1)).view(count, 1)
    scores = torch.cat((near, torch.mm(asked, kept.t())), dim=1)
    penalty = F.cross_entropy(scores, torch.zeros(count, dtype=torch.long))
    rule.zero_grad()
    penalty.backward()
    rule.step()
    kept = torch.cat((kept[count:], key), dim=0)
    print(f"{penalty.item():.6f}", kept.sum())
"""


def test_what_a_queue_keeps_behind_a_batch(tmp_path: Path, trial: Trial) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(IN_THE_LOOP)
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)
