"""Batches whose rows lie along the second dimension, behind the time steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, added, convert_text

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

texts = [torch.randint(1, 9, (5,)) for _ in range(22)]


COLLATE


feed = DataLoader(texts, batch_size=6, shuffle=True, collate_fn=collate)
brain = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
total, steps = 0.0, 0
for x, y in feed:
    rule.zero_grad()
    z = brain(x)
    loss = F.cross_entropy(z.view(-1, 9), y.reshape(-1))
    loss.backward()
    rule.step()
    total += loss.item() * x.size(1)
    steps += x.size(0)
    LINE
"""
PADDED = """\
def collate(rows):
    return pad_sequence([r[:-1] for r in rows]), pad_sequence([r[1:] for r in rows])
"""
STACKED = """\
def collate(rows):
    xs, ys = zip(*[(r[:-1], r[1:]) for r in rows])
    return torch.stack(xs, dim=1), torch.stack(ys, 1)
"""
TRANSPOSED = """\
def collate(rows):
    x = torch.stack(rows)
    return x[:, :-1].t(), x[:, 1:].transpose(0, 1)
"""
FILLED = """\
def collate(rows):
    x = torch.zeros(4, len(rows), dtype=torch.long)
    y = torch.zeros(4, len(rows), dtype=torch.long)
    for i, row in enumerate(rows):
        x[:, i], y[:, i] = row[:-1], row[1:]
    return x, y
"""
APPENDED = """\
class Collate:
    def __call__(self, rows):
        xs, ys = [], []
        for row in rows:
            xs.append(row[:-1])
            ys.append(row[1:])
        return pad_sequence(xs), pad_sequence(ys)


collate = Collate()
"""
ROWS_FIRST = """\
def collate(rows):
    x = torch.stack(rows)
    return x[:, :-1], x[:, 1:]
"""


def lines_of(folder: Path, collate: str, line: str = "pass") -> list[str]:
    """The lines that a conversion adds, with a further line at the end of the loop."""
    return added(folder, SCRIPT.replace("COLLATE\n", collate).replace("LINE", line))


@pytest.mark.parametrize("collate", [PADDED, STACKED, TRANSPOSED, FILLED, APPENDED])
def test_the_second_size_is_the_batch(tmp_path: Path, collate: str) -> None:
    lines = lines_of(tmp_path, collate)
    assert "total += loss.item() * dd.global_batch_size(x.size(1))" in lines
    assert not any("steps" in line for line in lines)


def test_rows_that_come_first(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, ROWS_FIRST)
    assert "steps += dd.global_batch_size(x)" in lines
    assert not any("total" in line for line in lines)


def test_rows_are_drawn_and_gathered_along_their_dimension(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, STACKED, "w = z + torch.randn_like(z)")
    assert "w = z + dd.split(torch.randn_like(dd.global_like(z, dim=1)), dim=1)" in lines
    lines = lines_of(tmp_path, STACKED, "print(z.argmax(-1).tolist())")
    assert "print(dd.gather(z.argmax(-1).tolist(), dim=1))" in lines


def test_sums_over_the_time_steps_leave_rows(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, STACKED, "print((z.argmax(-1) == y).sum(0).tolist())")
    assert "print(dd.gather((z.argmax(-1) == y).sum(0).tolist()))" in lines


def test_a_recurrent_layer_whose_inputs_are_not_shown(tmp_path: Path) -> None:
    text = SCRIPT.replace("COLLATE", PADDED).replace("LINE", "nn.LSTM(8, 8)(*[])")
    assert any("dd.shard" in line for line in added(tmp_path, text))


RECURRENT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

texts, labels = torch.randint(0, 9, (20, 7)), torch.randint(0, 3, (20,))
feed = DataLoader(TensorDataset(texts, labels), batch_size=6, shuffle=True)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.cells = nn.LSTM(4, 5, LAYERS)
        self.out = nn.LazyLinear(3)

    def forward(self, x):
        y, (h, c) = self.cells(self.words(x).permute(1, 0, 2))
        return self.out(RESULT)


brain = Reader()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    rule.zero_grad()
    loss = F.cross_entropy(brain(a), b)
    loss.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    ("layers", "result", "width"),
    [
        ("num_layers=2", "h.view(x.size(0), -1)", 10),
        ("bidirectional=True", "h.view(-1, 10)", 10),
        ("1, True, False, 0.0, True", "h.reshape(-1, 10, 1).squeeze(2)", 10),
        ("1", "y.reshape(x.shape[0], 35)", 35),
        ("1", "y.flatten(1).view(x.shape[0], -1)", 35),
    ],
)
def test_views_that_give_a_sample_parts_of_others(
    trial: Trial, layers: str, result: str, width: int
) -> None:
    text = RECURRENT.replace("LAYERS", layers).replace("RESULT", result)
    verdict = trial.verdict(text.replace("nn.LazyLinear(3)", f"nn.Linear({width}, 3)"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(
    ("layers", "result"),
    [
        ("2, bidirectional=True", "h.flatten(0, 1).view(len(x), 20)"),
        ("1", "y.reshape(-1, 35)"),
        ("1", "y.view(-1, 7, 5).flatten(1)"),
    ],
)
def test_views_whose_samples_are_not_followed(tmp_path: Path, layers: str, result: str) -> None:
    text = RECURRENT.replace("LAYERS", layers).replace("RESULT", result)
    with pytest.raises(Refusal, match="reads samples of the batch"):
        convert_text(tmp_path, text)


@pytest.mark.parametrize(
    ("layers", "result"),
    [
        ("1", "h.view(x.size(0), -1)"),
        ("num_layers=1", "torch.relu(h).view(-1, 5)"),
        ("1", "self.cells(y[0].view(1, x.size(0), -1)[..., :4])[0].view(x.size(0), -1)"),
        ("1", "self.cells(y[0].unsqueeze(0))[0].view(-1, 5)"),
        ("2", "h.transpose(0, 1).reshape(x.size(0), -1)"),
        ("2, bidirectional=True", "h.view(2, 2, len(x), 5)[-1][0]"),
        ("2, bidirectional=True", "h.view(2, 2, -1, 5)[-1][0]"),
        ("1", "self.out(y.view(-1, 5)).view(7, x.size(0), 3).mean(0)"),
        ("1", "self.out(y.reshape(y.size(0) * y.size(1), 5)).view(7, y.size(1), 3)[-1]"),
        (
            "1",
            "y.permute(2, 1, 0).reshape(-1, 7).view(5, len(x), 7).permute(1, 0, 2)"
            ".reshape(len(x), -1)",
        ),
        ("1", "torch.stack([y[-1][i, :4] for i in range(len(x))]).view(x.size(0), -1)"),
        ("1", "y.view(7, x.size(0) * 5, 1).transpose(0, 1).reshape(x.size(0), 5, 7).mean(2)"),
    ],
)
def test_views_that_keep_samples_apart(tmp_path: Path, layers: str, result: str) -> None:
    text = RECURRENT.replace("LAYERS", layers).replace("RESULT", result)
    assert "loss = dd.mean(F.cross_entropy(brain(a), b))" in added(tmp_path, text)


ALONG = "self.words(x).permute(1, 0, 2)"


@pytest.mark.parametrize(
    ("layer", "given"),
    [
        ("nn.LSTM(4, 5, batch_first=True)", "self.words(x)"),
        ("nn.TransformerEncoderLayer(4, 2, 8, 0.1, 'relu', 1e-5, True)", "self.words(x)"),
        ("nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, **options), 1)", "self.words(x)"),
        ("nn.GRU(4, 5)", ALONG),
        ("nn.GRU(4, 5)", "self.words(x).mean(1)[None]"),
    ],
)
def test_layers_that_take_steps_for_steps(tmp_path: Path, layer: str, given: str) -> None:
    text = RECURRENT.replace("nn.LSTM(4, 5, LAYERS)", layer).replace(ALONG, given)
    text = text.replace("y, (h, c) =", "y =").replace("RESULT", "y[0]")
    assert any("dd.wrap(" in line for line in added(tmp_path, f"options = {{}}\n{text}"))


@pytest.mark.parametrize(
    ("layer", "given"),
    [
        ("nn.TransformerDecoderLayer(4, 2, 8)", "tgt=steps, memory=steps"),
        ("nn.TransformerDecoderLayer(4, 2, 8)", "steps, memory=steps"),
        ("nn.GRU(4, 4)", "input=steps"),
    ],
)
def test_layers_that_get_their_inputs_by_name(tmp_path: Path, layer: str, given: str) -> None:
    text = RECURRENT.replace("nn.LSTM(4, 5, LAYERS)", layer).replace("y, (h, c) =", "steps =")
    last = f"self.cells({given})" + "[0]" * ("GRU" in layer)
    last = f"{last}.permute(1, 0, 2)[:, -1]"
    text = text.replace(f"self.cells({ALONG})", ALONG).replace("RESULT", last)
    assert not [line for line in added(tmp_path, text) if "dd.gather(" in line]


def test_a_row_of_all_steps_is_picked_from_those_of_all_ranks(tmp_path: Path) -> None:
    text = RECURRENT.replace("LAYERS", "2").replace("RESULT", "h[-1]")
    step = "    y = brain.words(a).permute(1, 0, 2).reshape(-1, 4)\n    print(y[9].tolist())\n"
    assert added(tmp_path, text + step)[-1] == "print(dd.gather(y, stacked=True)[9].tolist())"


def test_a_view_outside_of_a_model_is_one_of_all_ranks(tmp_path: Path) -> None:
    text = RECURRENT.replace("LAYERS", "2").replace("RESULT", "h[-1]")
    step = (
        "    y, (h, c) = brain.cells(brain.words(a).transpose(0, 1))\n    print(h.view(-1, 10))\n"
    )
    lines = added(tmp_path, text + step)
    assert lines[-1] == "print(dd.gather(h, dim=1).view(-1, 10))"


STEPS = """\
def over_some(rows, kinds):
    some = kinds != 0
    return ((rows[some].sum(1) - kinds[some]) ** 2).mean()


for a, b in feed:
    rule.zero_grad()
    steps, kinds = torch.stack([a, 2 * a], 1).permute(1, 0, 2), torch.stack([b, b]).float()
    penalty = 0
    for t in range(2):
        penalty = penalty + over_some(brain(steps[t]), kinds[t])
    penalty.backward()
    rule.step()
"""


def test_what_a_loop_counts_with_takes_a_step_of_all_samples(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + STEPS)
    weighted = "weight=len((rows[some].sum(1) - kinds[some]) ** 2)"
    assert any(weighted in line for line in lines), lines


MASKED = """\
text = torch.randint(9, (50, 7)).t()
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 1)
        self.out = nn.Linear(8, 9)
    def forward(self, words, mask):
        return self.out(self.blocks(self.embed(words), MASK))
words = Words()
learn = torch.optim.SGD(words.parameters(), lr=0.1)
mask = torch.triu(torch.full((5, 5), float("-inf")), diagonal=1)
for start in range(0, 40, 5):
    given, wanted = text[start : start + 5], text[start + 1 : start + 6].reshape(-1)
    fault = F.cross_entropy(words(given, mask).view(-1, 9), wanted)
    learn.zero_grad()
    fault.backward()
    learn.step()
"""


@pytest.mark.parametrize("given", ["mask", "mask=mask"])
def test_a_mask_of_steps_by_steps_is_no_batch(given: str, tmp_path: Path) -> None:
    imports = HEAD.split("\n\n")[0]
    text = MASKED.replace("MASK", given).replace("text = torch.randint(9, (50, 7)).t()", "")
    made = "text = torch.randint(9, (7, 50)).t().contiguous()"
    lines = added(tmp_path, f"{imports}\n{made}\n{text}")
    split = [line for line in lines if "shard_batch" in line]
    assert len(split) == 1 and "dim=1" in split[0] and "mask" not in split[0], lines


PACKED = """\
def pad(rows):
    return torch.LongTensor(list(itertools.zip_longest(*rows, fillvalue=0)))
def made(rows):
    return pad(rows), torch.tensor([len(row) for row in rows])
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        self.cells = nn.GRU(8, 8)
    def forward(self, words, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(words), lengths, enforce_sorted=False)
        return self.cells(packed)[1]
words = Words()
learn = torch.optim.SGD(words.parameters(), lr=0.1)
texts = [[1] * (2 + i % 5) for i in range(40)]
for start in range(0, 40, 8):
    batch = made(texts[start : start + 8])
    given, lengths = batch
    fault = words(given, lengths).pow(2).mean()
    learn.zero_grad()
    fault.backward()
    learn.step()
"""


def test_parts_of_a_tuple_whose_rows_lie_apart_are_refused(tmp_path: Path) -> None:
    imports = "import itertools\n" + HEAD.split("\n\n")[0]
    with pytest.raises(Refusal, match="along its second dimension"):
        added(tmp_path, f"{imports}\n{PACKED}")
