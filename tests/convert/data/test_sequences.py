"""Losses over time steps and masked rows: their number is not that of the batch's samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, STEP, added, convert_text

PACKED = """\
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset

words, lengths = torch.randint(0, 9, (20, 5)), torch.randint(1, 6, (20,))
feed = DataLoader(TensorDataset(words, lengths), batch_size=6, shuffle=True)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.memory = nn.GRU(4, 8, batch_first=True)
        self.out = nn.Linear(8, 9)

    def forward(self, x, n):
        short = pack_padded_sequence(self.embed(x), n, batch_first=True, enforce_sorted=False)
        states, last = self.memory(short)
        {result}


brain = Reader()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
measure = nn.CrossEntropyLoss()
for a, n in feed:
    rule.zero_grad()
    {loss}
    penalty.backward()
    rule.step()
    print(penalty.item())
"""


def test_a_loss_over_packed_time_steps_is_weighted_by_their_number(tmp_path: Path) -> None:
    loss = (
        "wanted = pack_padded_sequence(a, n, batch_first=True, enforce_sorted=False)[0]\n"
        "    penalty = measure(brain(a, n), wanted)"
    )
    text = PACKED.format(result="return self.out(states[0])", loss=loss)
    lines = added(tmp_path, text)
    assert "penalty = dd.mean(measure(brain(a, n), wanted), weight=len(wanted))" in lines


def test_a_mean_over_packed_time_steps_is_weighted_by_their_number(tmp_path: Path) -> None:
    loss = "steps = brain(a, n)\n    penalty = steps.pow(2).mean()"
    text = PACKED.format(result="return self.out(states.data)", loss=loss)
    lines = added(tmp_path, text)
    assert "penalty = dd.mean(steps.pow(2).mean(), weight=len(steps.pow(2)))" in lines


def test_the_last_states_and_padded_outputs_are_rows_of_samples(tmp_path: Path) -> None:
    result = (
        "padded, _ = pad_packed_sequence(states, batch_first=True)\n"
        "        return self.out(last[-1]), padded.sum(1)"
    )
    loss = "out, padded = brain(a, n)\n    penalty = measure(out, a[:, 0]) + padded.pow(2).mean()"
    lines = added(tmp_path, PACKED.format(result=result, loss=loss))
    assert "penalty = dd.mean(measure(out, a[:, 0]) + padded.pow(2).mean())" in lines


def test_packed_sequences_are_padded_to_the_longest_of_all_ranks(tmp_path: Path) -> None:
    result = (
        "padded = pad_packed_sequence(states, batch_first=True)[0]\n"
        "        return self.out(padded), pad_packed_sequence(states, total_length=5)[0]"
    )
    loss = (
        "goal = a[:, : torch.max(n).item()]\n"
        "    out, last = brain(a, n)\n"
        "    penalty = measure(out.view(-1, 9), goal.reshape(-1))"
    )
    lines = added(tmp_path, PACKED.format(result=result, loss=loss))
    assert "padded = dd.pad_packed_sequence(states, batch_first=True)[0]" in lines
    assert "goal = a[:, : torch.max(dd.gather(n)).item()]" in lines
    assert not [line for line in lines if "total_length" in line]


@pytest.mark.parametrize("cast", ["", ".long()"])
def test_an_order_that_a_forward_finds_is_of_the_rows_of_all_ranks(
    tmp_path: Path, cast: str
) -> None:
    result = (
        f"order = torch.sort(n, descending=True)[1]{cast}\n"
        "        last = last[-1][order][torch.argsort(order)]\n"
        "        return self.out(last.view(-1, last.size(1)))"
    )
    loss = "penalty = measure(brain(a, n), a[:, 0])"
    lines = added(tmp_path, PACKED.format(result=result, loss=loss))
    assert f"order = torch.sort(dd.gather(n), descending=True)[1]{cast}" in lines
    assert [line for line in lines if "dd.split(dd.gather(last[-1])[order])" in line]
    assert "penalty = dd.mean(measure(brain(a, n), a[:, 0]))" in lines


def test_a_loss_on_masked_rows_is_weighted_by_their_number(tmp_path: Path) -> None:
    body = "    kept = b > 0\n    penalty = F.cross_entropy(brain(a)[kept], b[kept])\n"
    text = STEP.replace("    penalty = F.cross_entropy(brain(a), b)\n", body)
    lines = added(tmp_path, HEAD + text)
    loss = "F.cross_entropy(brain(a)[kept], b[kept])"
    assert f"penalty = dd.mean({loss}, weight=len(b[kept]))" in lines


def test_masked_rows_that_are_read_are_gathered_whatever_their_number(tmp_path: Path) -> None:
    text = STEP + "    kept = b[b > 0].numpy()\n    print(kept)\n"
    assert "print(dd.gather_ragged(kept))" in added(tmp_path, HEAD + text)


STATES = """\
class Reader(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.memory = nn.LSTM(1, 8, batch_first={first})
        self.out = nn.Linear(8, 3)

    def begin(self, size):
        weight = next(self.parameters()).data
        return torch.zeros(1, self.size, 8), weight.new(1, size, 8).zero_()

    def forward(self, x, states):
        x = x.unsqueeze(2)
        {forward}
        return self.out(states[0][-1]), states


brain = Reader(6)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
states = {begin}
for a, b in feed:
    rule.zero_grad()
    states = tuple([one.data for one in states])
    out, states = brain(a, states)
    penalty = F.cross_entropy(out, b)
    penalty.backward()
    rule.step()
"""
LATER = "x = x.transpose(0, 1)\n        _, states = self.memory(x, states)"
LAYER = {
    "as the batch goes on": ("True", "_, states = self.memory(x, states)", "0"),
    "told by position": ("1, True, True", "_, states = self.memory(x, states)", "0"),
    "time first": ("False", LATER, "1"),
    "made in the forward": ("True", "_, states = self.memory(x, self.begin(self.size))", "0"),
}


@pytest.mark.parametrize("name", LAYER)
def test_states_of_a_whole_batch_are_split_where_a_layer_gets_them(
    tmp_path: Path, name: str
) -> None:
    first, forward, dim = LAYER[name]
    text = STATES.format(first=first, forward=forward, begin="brain.begin(6)")
    text = text.replace("batch_first=1, ", "1, ")
    lines = added(tmp_path, HEAD + text)
    given = "self.begin(self.size)" if "forward" in name else "states"
    assert f"_, states = self.memory(x, dd.split({given}, dim=1, rows=x.size({dim})))" in lines


@pytest.mark.parametrize("lengths", ["n", "n.tolist()"])
def test_rows_are_packed_with_their_own_of_the_sorted_lengths(tmp_path: Path, lengths: str) -> None:
    text = PACKED.format(
        result="return self.out(last[-1])[back]", loss="penalty = brain(a, n).sum()"
    )
    before = "        short = pack_padded_sequence(self.embed(x), n, batch"
    order = "        n, order = n.sort(0, descending=True)\n        back = order.argsort()\n"
    packed = f"        short = pack_padded_sequence(self.embed(x)[order], {lengths}, batch"
    lines = added(tmp_path, text.replace(before, order + packed))
    assert "n, order = dd.gather(n).sort(0, descending=True)" in lines
    own = f"dd.split(dd.gather(self.embed(x))[order]), dd.split({lengths})"
    assert any(own in line for line in lines)
    assert any("dd.split(dd.gather(" in line and ")[back])" in line for line in lines)


def _with_reader_apart(folder: Path, text: str) -> str:
    """Put a script's model into a module beside it; what the script is then."""
    start, end = text.index("class Reader"), text.index("brain = Reader")
    model = "import torch\nimport torch.nn as nn\n"
    model += "from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence\n\n\n"
    (folder / "reader.py").write_text(model + text[start:end].rstrip() + "\n", encoding="utf-8")
    return "from reader import Reader\n" + text[:start] + text[end:]


def test_states_of_a_whole_batch_in_a_file_that_stays_are_refused(tmp_path: Path) -> None:
    _, forward, _ = LAYER["made in the forward"]
    text = HEAD + STATES.format(first="True", forward=forward, begin="None")
    text = text.replace("    states = tuple([one.data for one in states])\n", "")
    with pytest.raises(Refusal) as refused:
        convert_text(tmp_path, _with_reader_apart(tmp_path, text))
    assert "reader.py:19: this layer gets states for all rows of the batch" in str(refused.value)
    assert f"ddpify convert {tmp_path}" in str(refused.value.remedy)


def test_padding_in_a_file_that_stays_is_noted(tmp_path: Path) -> None:
    result = "return self.out(pad_packed_sequence(states, batch_first=True)[0][:, 0])"
    loss = "penalty = measure(brain(a, n), a[:, 0])"
    text = _with_reader_apart(tmp_path, PACKED.format(result=result, loss=loss))
    notes = [str(note) for note in convert_text(tmp_path, text).notes if note.attention]
    assert any("each rank pads to the longest of its own sequences" in note for note in notes)


def test_states_of_the_rows_at_hand_stay(tmp_path: Path) -> None:
    forward = "_, states = self.memory(x, (states[0].zero_(), states[1].zero_()))"
    text = STATES.format(first="True", forward=forward, begin="None")
    text = text.replace("    rule.zero", "    states = brain.begin(len(a))\n    rule.zero")
    text = text.replace("    states = tuple([one.data for one in states])\n", "")
    text = text.replace("torch.zeros(1, self.size, 8)", "torch.zeros(1, size, 8)")
    assert not [line for line in added(tmp_path, HEAD + text) if "split" in line]


QUEUED = """\
import queue
import numpy as np
{head}

class Batch:
    def __init__(self, texts):
        self.words = np.zeros((len(texts), 5), dtype=np.int64)
        self.lengths = np.zeros((len(texts),), dtype=np.int64)
        for i, text in enumerate(texts):
            self.words[i, : len(text)] = text
            self.lengths[i] = len(text)


def inputs(batch):
    return torch.from_numpy(batch.words), batch.lengths


{model}

waiting = queue.Queue()
brain = Reader()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for start in range(0, 20, 6):
    batch = Batch([[1, 2, 3]] * 6)
    {taken}
    a, n = inputs(batch)
    rule.zero_grad()
    penalty = nn.CrossEntropyLoss()(brain(a, n), a[:, 0])
    penalty.backward()
    rule.step()
"""
OUT_OF_A_QUEUE = "waiting.put(batch)\n    batch = waiting.get()"


def _queued(taken: str, *, named: bool) -> str:
    text = PACKED.format(result="return self.out(last[-1])", loss="pass")
    model = text[text.index("class Reader") : text.index("brain = Reader")]
    if named:
        model = model.replace("short = pack", "y = self.embed(x)\n        short = pack")
        model = model.replace("(self.embed(x), n,", "(y, n,")
    head = text[: text.index("from torch.utils.data")]
    return QUEUED.format(head=head, model=model.rstrip(), taken=taken)


def test_lengths_that_are_filled_by_position_are_split_with_the_sequences(tmp_path: Path) -> None:
    assert "a, n = dd.shard_batch(a, n)" in added(tmp_path, _queued("", named=False))


def test_lengths_out_of_what_is_not_seen_are_split_where_sequences_are_packed(
    tmp_path: Path,
) -> None:
    lines = added(tmp_path, _queued(OUT_OF_A_QUEUE, named=True))
    assert any("dd.split(n, rows=y.size(0))" in line for line in lines)
    with pytest.raises(Refusal, match="the lengths of all sequences of the batch"):
        convert_text(tmp_path, _queued(OUT_OF_A_QUEUE, named=False))
