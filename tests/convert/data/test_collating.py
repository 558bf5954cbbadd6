"""Batches that a collate function puts together of several rows a sample, or of what comes next."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.errors import DdpifyError
from tests.convert.examples import added, convert_text

WORDS = """\
import itertools
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

lines = [[(i % 7, k) for k in range(i % 4)] for i in range(29)]


def put(samples):
    PUT
    return torch.tensor(left), torch.tensor(right)


feed = DataLoader(lines, batch_size=8, shuffle=True, collate_fn=put)
brain = nn.Embedding(9, 4)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for left, right in feed:
    rule.zero_grad()
    away = (brain(left) * brain(right)).sum(1)
    penalty = away.mean()
    penalty.backward()
    rule.step()
    print(len(left))
"""

SEVERAL = {
    "one comprehension through all": (
        "left = [a for s in samples for a, _ in s]\n    right = [b for s in samples for _, b in s]"
    ),
    "a list that is made before the loop": (
        "left, right = [], []\n    for s in samples:\n        for a, b in s:\n"
        "            left.append(a)\n            right.append(b)"
    ),
    "all of a sample at once": (
        "left, right = [], []\n    for s in samples:\n        left.extend([a for a, _ in s])\n"
        "        right += [b for _, b in s]"
    ),
    "a sum of lists": "left, right = zip(*sum(samples, []))",
    "one list behind the other": "left, right = zip(*itertools.chain(*samples))",
    "tensors in another shape": (
        "both = torch.cat([torch.tensor(s).reshape(-1, 2) for s in samples])\n"
        "    left, right = both[:, 0], both[:, 1]"
    ),
    "arrays": (
        "both = np.concatenate([np.array(s).reshape(-1, 2) for s in samples])\n"
        "    left, right = both[:, 0], both[:, 1]"
    ),
}
ONE = {
    "a row of each": "left = [s[0][0] for s in samples]\n    right = [s[0][1] for s in samples]",
    "a list of each sample's own": (
        "left, right = [], []\n    for s in samples:\n        own = []\n        for a, _ in s:\n"
        "            own.append(a)\n        left.append(own)\n        right.append(own)"
    ),
    "a list for each part": (
        "parts = [[], []]\n    for s in samples:\n        for part, held in zip(parts, s):\n"
        "            part.append(held)\n    left, right = parts"
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_means_over_several_rows_a_sample_are_weighted(tmp_path: Path, name: str) -> None:
    lines = added(tmp_path, WORDS.replace("PUT", SEVERAL[name]))
    assert "penalty = dd.mean(away.mean(), weight=len(away))" in lines
    assert "print(dd.sum(len(left)))" in lines


@pytest.mark.parametrize("name", ONE)
def test_means_over_one_row_a_sample_are_not(tmp_path: Path, name: str) -> None:
    lines = added(tmp_path, WORDS.replace("PUT", ONE[name]))
    assert "penalty = dd.mean(away.mean())" in lines


NEXT = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Lines(Dataset):
    def __init__(self):
        self.file = open("lines.txt")
        self.starts = [2 * i for i in range(40)]

    def __len__(self):
        return 40

    def __getitem__(self, index):
        GET
        return torch.tensor([float(line)])


feed = DataLoader(Lines(), batch_size=8)
brain = nn.Linear(1, 1)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for x in feed:
    rule.zero_grad()
    brain(x).mean().backward()
    rule.step()
"""
WHOLE = 'feed = dd.shard(DataLoader(Lines(), batch_size=8), collate="global")'


@pytest.mark.parametrize(
    "get",
    [
        "line = self.file.readline()",
        "line = next(self.file)",
        "line = self.starts[self.place]\n        self.place += 1",
        "self.place = self.place + 1\n        line = self.starts[self.place]",
    ],
)
def test_samples_that_come_one_after_the_other_are_taken_by_all_ranks(
    tmp_path: Path, get: str
) -> None:
    assert WHOLE in added(tmp_path, NEXT.replace("GET", get))


@pytest.mark.parametrize(
    "get",
    [
        "self.file.seek(self.starts[index])\n        line = self.file.readline()",
        "self.asked += 1\n        line = self.starts[index]",
        "self.kept[index] = self.starts[index]\n        line = self.kept[index]",
    ],
)
def test_samples_that_are_looked_up_are_taken_by_one_rank(tmp_path: Path, get: str) -> None:
    assert WHOLE not in added(tmp_path, NEXT.replace("GET", get))


def test_samples_that_follow_each_other_in_unknown_batches_are_refused(tmp_path: Path) -> None:
    put = "def put(rows):\n    return torch.cat([r for r in rows if len(r)])\n\n\nfeed = "
    script = NEXT.replace("GET", "line = self.file.readline()").replace("feed = ", put)
    with pytest.raises(DdpifyError, match="goes by the samples that were taken before"):
        convert_text(tmp_path, script.replace("batch_size=8", "batch_size=8, collate_fn=put"))


LOADED = """\
import torch
import torch.nn as nn

brain = torch.load("whole.pt", weights_only=False)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
rows = torch.randn(40, 6, 3)
for i in range(0, 40, 10):
    rule.zero_grad()
    penalty = brain(rows[i:i + 10]).pow(2).mean()
    penalty.backward()
    rule.step()
"""


def test_where_the_samples_lie_is_not_guessed_of_a_model_out_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(DdpifyError, match="the model is loaded from a file"):
        convert_text(tmp_path, LOADED)


OWN_LOADER = """\
class Feed(DataLoader):
    def __init__(self, lines, batch_size):
        super().__init__(lines, batch_size, shuffle=True, collate_fn=put)


"""


def test_a_loader_of_the_script_collates_as_its_base_is_told(tmp_path: Path) -> None:
    put = SEVERAL["all of a sample at once"]
    made = "DataLoader(lines, batch_size=8, shuffle=True, collate_fn=put)"
    text = WORDS.replace("PUT", put).replace(f"feed = {made}", f"{OWN_LOADER}feed = Feed(lines, 8)")
    lines = added(tmp_path, text)
    assert "penalty = dd.mean(away.mean(), weight=len(away))" in lines


SPEECH = """\
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Spoken(Dataset):
    def __init__(self):
        draw = torch.Generator().manual_seed(3)
        sizes = torch.randint(1, 4, (11,), generator=draw).tolist()
        self.held = [(torch.randn(n + 5, 3, generator=draw), torch.arange(n) + 1) for n in sizes]

    def __len__(self):
        return len(self.held)

    def __getitem__(self, place):
        return self.held[place]


def join(samples):
    waves, texts, lengths, sizes = [], [], [], []
    for wave, text in samples:
        waves.append(wave)
        lengths.append(wave.shape[0])
        texts.append(text)
        sizes.append(len(text))
    return pad_sequence(waves, batch_first=True), JOINED, lengths, sizes


class Hearing(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter, self.last = nn.Conv1d(3, 4, 3, padding=1), nn.Linear(4, 6)

    def forward(self, waves):
        return self.last(self.filter(waves.transpose(1, 2)).transpose(1, 2))


torch.manual_seed(0)
heard = DataLoader(Spoken(), batch_size=4, shuffle=True, collate_fn=join)
brain = Hearing()
rule = torch.optim.SGD(brain.parameters(), lr=0.01)
far = nn.CTCLoss()
for waves, texts, lengths, sizes in heard:
    rule.zero_grad()
    loss = far(brain(waves).log_softmax(2).transpose(0, 1), texts, lengths, sizes)
    loss.backward()
    rule.step()
    print(f"{loss.item():.5f}")
"""


STREAM = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
rows = torch.randn(22, 4)


class Stream(Dataset):
    def __init__(self):
        self.files, self.current, self.place = [rows[:10], rows[10:]], 0, 0

    def __len__(self):
        return 20

    def take(self):
        row = self.files[self.current][self.place]
        self.place = self.place + 1
        return row

    def __getitem__(self, index):
        row = self.take()
        if self.place == len(self.files[self.current]):
            self.current, self.place = 1 - self.current, 0
        return row, row.sum()


feed = DataLoader(Stream(), batch_size=6)
brain = nn.Linear(4, 1)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for x, y in feed:
    rule.zero_grad()
    loss = (brain(x).squeeze(1) - y).pow(2).mean()
    loss.backward()
    rule.step()
    print(f"{loss.item():.5f}")
"""


def test_samples_that_a_data_set_counts_up_to(trial: Trial) -> None:
    verdict = trial.verdict(STREAM)
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("joined", ["pad_sequence(texts, batch_first=True)", "torch.cat(texts)"])
def test_lengths_beside_padded_samples_and_joined_texts(trial: Trial, joined: str) -> None:
    verdict = trial.verdict(SPEECH.replace("JOINED", joined))
    assert verdict.outcome is Outcome.SAME, verdict.detail
