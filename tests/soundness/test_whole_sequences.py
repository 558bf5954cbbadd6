"""Rows of all ranks that a forward sorts: recurrent layers, and items behind a new dimension."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LAYERS = "self.cell, self.alike"
MADE = "self.gru, self.lstm = nn.GRU(4, 4, batch_first=True), nn.LSTM(4, 4)"
SORTED = "_, order = h.sum(1).sort()\nwhole = h[order]\n"
PACKED = "nn.utils.rnn.pack_padded_sequence(whole.unsqueeze(1), [1] * len(whole), batch_first=True)"
# Sequences of all ranks with states of a rank's own, and the other way.
STATES = [
    "h = self.gru(whole.unsqueeze(1), h.unsqueeze(0))[0][:, 0]",
    "h = self.gru(h.unsqueeze(1), whole.unsqueeze(0))[0][:, 0]",
    "h = self.gru(whole.unsqueeze(1), hx=h[None])[0][:, 0]",
    f"packed, _ = self.gru({PACKED}, h.unsqueeze(0))\n"
    "h = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0][:, 0]",
    "h = self.lstm(whole.unsqueeze(0), (h.unsqueeze(0), h.unsqueeze(0)))[0][0]",
    "_, states = self.lstm(h.unsqueeze(0))\nh = self.lstm(whole.unsqueeze(0), states)[0][0]",
    "_, states = self.lstm(whole.unsqueeze(0))\nh = self.lstm(h.unsqueeze(0), states)[0][0]",
]
ITEMS = [
    "h = whole.unsqueeze(0)[0]",
    "h = whole.unsqueeze(dim=0)[-1]",
    "h = whole.unsqueeze(0).squeeze(0)",
    "h = torch.stack([whole, 2 * whole])[1]",
    "h = torch.stack([whole, 2 * whole]).sum(0)",
    "h = torch.stack([whole, 2 * whole], 1).mean(1)",
    "h, _ = whole.unsqueeze(0).expand(2, -1, -1)",
]


@pytest.mark.parametrize("lines", STATES)
def test_sequences_and_states_are_both_of_all_ranks(trial: Trial, lines: str) -> None:
    assert outcome(trial, lines) in (Outcome.SAME, Outcome.UNDIVIDED)


@pytest.mark.parametrize("lines", ITEMS)
def test_an_item_behind_a_new_dimension_has_all_rows(trial: Trial, lines: str) -> None:
    assert outcome(trial, lines) is Outcome.SAME


def outcome(trial: Trial, lines: str) -> Outcome:
    text = script("forward", SORTED + lines)
    return trial.verdict(text.replace(LAYERS, f"{MADE}\n        {LAYERS}")).outcome
