"""Words of each text that a training loop masks, by what a tokenizer says of that text alone."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import sys
import types
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Words:
    mask_token_id = 9

    @classmethod
    def from_pretrained(cls, name):
        return cls()

    def get_special_tokens_mask(self, ids, already_has_special_tokens=False):
        return [int(i in (0, 1)) for i in ids]

    def __len__(self):
        return 10


sys.modules["transformers"] = types.SimpleNamespace(BertTokenizer=Words)
from transformers import BertTokenizer

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Texts(Dataset):
    def __len__(self):
        return 22

    def __getitem__(self, i):
        return {"ids": torch.tensor([1] + [(i * j) % 7 for j in range(5)] + [0])}


def mask_tokens(inputs, tokenizer):
    labels = inputs.clone()
    chances = torch.full(labels.shape, 0.4)
    SPECIAL
    chances.masked_fill_(torch.tensor(special, dtype=torch.bool), value=0.0)
    masked = torch.bernoulli(chances).bool()
    labels[~masked] = -100
    replaced = torch.bernoulli(torch.full(labels.shape, 0.8)).bool() & masked
    inputs[replaced] = tokenizer.mask_token_id
    drawn = torch.bernoulli(torch.full(labels.shape, 0.5)).bool() & masked & ~replaced
    words = torch.randint(len(tokenizer), labels.shape, dtype=torch.long)
    inputs[drawn] = words[drawn]
    return inputs, labels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.read = nn.Embedding(10, 6), nn.Linear(6, 10)

    def forward(self, x):
        return self.read(torch.tanh(self.embed(x).cumsum(1)))


tokenizer = BertTokenizer.from_pretrained("bert-base-uncased")
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Texts(), batch_size=8, shuffle=True)
for epoch in range(2):
    for batch in loader:
        inputs, labels = mask_tokens(batch["ids"], tokenizer)
        out = model(inputs)
        loss = F.cross_entropy(out.view(-1, 10), labels.view(-1), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""
ASKED = "tokenizer.get_special_tokens_mask(ids, already_has_special_tokens=True)"
OF_EACH = [
    f"special = [{ASKED} for ids in labels.tolist()]",
    f"special = [{ASKED} for ids in inputs.cpu().tolist()]",
    f"special = []\nfor ids in labels.tolist():\n    special.append({ASKED})",
]
OF_OTHERS = [
    f"special = list(map(lambda ids: {ASKED}, labels.tolist()))",
    f"ids = labels.tolist()[0]\nspecial = [{ASKED} for _ in labels.tolist()]",
    f"special = [{ASKED} for ids in reversed(labels.tolist())]",
    f"special = [{ASKED} for ids in labels.tolist()]\nspecial[0] = special[1]",
    f"n = sum(sum({ASKED}) for ids in labels.tolist())\nspecial = (labels % n == 0).tolist()",
    f"ids = labels.sum(0).tolist()\nspecial = [{ASKED}] * len(labels)",
]


@pytest.mark.parametrize("special", OF_EACH)
def test_they_are_masked_as_in_one_process(trial: Trial, special: str) -> None:
    verdict = trial.verdict(script(special))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("special", OF_OTHERS)
def test_what_it_says_of_other_texts_is_theirs(trial: Trial, special: str) -> None:
    verdict = trial.verdict(script(special))
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail


def script(special: str) -> str:
    return SCRIPT.replace("SPECIAL", special.replace("\n", "\n    "))
