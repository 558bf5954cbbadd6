"""Texts of any length that a training loop pads itself: to the longest of all ranks' samples."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Texts(Dataset):
    def __len__(self):
        return 22

    def __getitem__(self, i):
        long = 2 + i * i % 5
        return [1 + (i + j) % 6 for j in range(long)], [(i * j) % 3 for j in range(long)]


COLLATE

def pad(batch, to):
    return [ids[:to] + [0] * max(0, to - len(ids)) for ids in batch]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 5)
        self.read = nn.Linear(5, 3)

    def forward(self, x):
        return self.read(self.embed(x))


model = Tagger()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Texts(), batch_size=8, shuffle=True, collate_fn=collate)
for epoch in range(2):
    for batch in loader:
        tokens, tags = batch
        PADDED
        out = model(x)
        loss = criterion(out.view(-1, 3), y.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}", tuple(x.shape[1:]))
"""
COMPREHENSIONS = (
    "def collate(samples):\n    return [s[0] for s in samples], [s[1] for s in samples]\n"
)
UNZIPPED = "def collate(samples):\n    tokens, tags = zip(*samples)\n    return tokens, tags\n"
APPENDED = """\
def collate(samples):
    tokens, tags = [], []
    for one, two in samples:
        tokens.append(one)
        tags.append(two)
    return tokens, tags
"""
TWICE = """\
def collate(samples):
    tokens, tags = [], []
    for one, two in samples:
        tokens.append(one)
        tags.append(two)
        tokens.append(one)
        tags.append(two)
    return tokens, tags
"""
CHOSEN = """\
def collate(samples):
    kept = [s for s in samples if len(s[0]) > 2] or samples
    return [s[0] for s in kept], [s[1] for s in kept]
"""
TENSORS = "x, y = torch.tensor(pad(tokens, n)), torch.tensor(pad(tags, n))"
LENGTHS = [
    "max(len(t) for t in tokens)",
    "max([len(t) for t in tokens])",
    "max(map(len, tokens))",
    "max(list(map(len, tokens)))",
    "int(np.max([len(t) for t in tokens]))",
    "len(max(tokens, key=len))",
    "len(sorted(tokens, key=len)[-1])",
    "sorted([len(t) for t in tokens])[-1]",
    "torch.tensor([len(t) for t in tokens]).max().item()",
    "sum(len(t) for t in tokens) // 4",
    "len(tokens[0])",
]


def script(collate: str, *padded: str) -> str:
    lines = "\n".join(padded).replace("\n", "\n        ")
    return SCRIPT.replace("COLLATE\n", collate + "\n").replace("PADDED", lines)


@pytest.mark.parametrize("length", LENGTHS)
def test_the_length_is_that_of_all_samples(trial: Trial, length: str) -> None:
    assert_same(trial, script(UNZIPPED, f"n = {length}", TENSORS))


@pytest.mark.parametrize("collate", [COMPREHENSIONS, APPENDED])
def test_lists_have_something_of_each_sample(trial: Trial, collate: str) -> None:
    assert_same(trial, script(collate, f"n = {LENGTHS[0]}", TENSORS))


@pytest.mark.parametrize("collate", [TWICE, CHOSEN])
def test_so_do_others_or_they_are_refused(trial: Trial, collate: str) -> None:
    verdict = trial.verdict(script(collate, f"n = {LENGTHS[0]}", TENSORS))
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail


PADDINGS = [
    ["n = 0", "for t in tokens:\n    n = max(n, len(t))", TENSORS],
    ["n = 0", "for t in tokens:\n    if len(t) > n:\n        n = len(t)", TENSORS],
    ["lengths = [len(t) for t in tokens]", "n = max(lengths)", TENSORS],
    [
        f"n = {LENGTHS[0]}",
        "x = torch.tensor(pad(tokens, n))",
        "y = torch.tensor(pad(tags, x.size(1)))",
    ],
    [f"n = {LENGTHS[0]}", "inputs = pad(tokens, n)", "n = len(inputs[0])", TENSORS],
    [
        "x = pad_sequence([torch.tensor(t) for t in tokens], batch_first=True)",
        "y = pad_sequence([torch.tensor(t) for t in tags], batch_first=True)",
    ],
    [
        f"n = {LENGTHS[0]}",
        "x, y = torch.zeros(len(tokens), n).long(), torch.zeros(len(tokens), n).long()",
        "for i, (a, b) in enumerate(zip(tokens, tags)):",
        "    x[i, : len(a)], y[i, : len(b)] = torch.tensor(a), torch.tensor(b)",
    ],
    [f"n = 6\n{TENSORS}", "print(sum(len(t) for t in tokens), max(len(t) for t in tokens))"],
    [f"n = 6\n{TENSORS}", "y[0, 0] = len(tokens[1]) % 3"],
]


@pytest.mark.parametrize("padded", PADDINGS)
def test_so_are_other_ways_to_pad(trial: Trial, padded: list[str]) -> None:
    verdict = trial.verdict(script(UNZIPPED, *padded))
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail


PICKED = [
    ["x, y = torch.tensor([tokens[0]]), torch.tensor(pad([tags[0]], len(tokens[0])))"],
    ["n = max(len(t) for t in tokens)", "tags = list(tags)\ntags[0] = tags[1]", TENSORS],
    ["n = max(len(t) for t in tokens)", "tokens, tags = tokens[:3], tags[:3]", TENSORS],
    ["n = max(len(t) for t in tokens)", "tokens, tags = tokens[::-1], tags[::-1]", TENSORS],
    ["n = max(len(t) for t in tokens)", "tags = [tags[0] for one in tags]", TENSORS],
    ["n = max(len(t) for t in tokens)", TENSORS, "y = (y + len(tags[1])) % 3"],
]


@pytest.mark.parametrize("padded", PICKED)
def test_samples_at_places_are_those_of_the_batch(trial: Trial, padded: list[str]) -> None:
    verdict = trial.verdict(script(UNZIPPED, *padded))
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail


def assert_same(trial: Trial, text: str) -> None:
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
