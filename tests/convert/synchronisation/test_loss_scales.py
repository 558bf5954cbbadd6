"""Scalers of float16 losses: wrapped where nothing reads gradients while they are scaled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, added, convert_text

STEP = """\
for a, b in feed:
    rule.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        penalty = F.cross_entropy(brain(a), b)
    {scale}
    grower.step(rule)
    grower.update()
"""
SCALER = 'grower = torch.amp.GradScaler("cuda")\n'
CLASS = """\
def size(parameters):
    return sum(p.grad.norm() ** 2 for p in parameters) ** 0.5

class Scaled:
    def __init__(self):
        self.inner = torch.cuda.amp.GradScaler()
    def __call__(self, penalty, rule, limit=None):
        self.inner.scale(penalty).backward()
        if limit is not None:
            self.inner.unscale_(rule)
            norm = nn.utils.clip_grad_norm_(brain.parameters(), limit)
        else:
            self.inner.unscale_(rule)
            norm = size(brain.parameters())
        self.inner.step(rule)
        self.inner.update()
        return norm

grower = Scaled()
for a, b in feed:
    rule.zero_grad()
    grower(F.cross_entropy(brain(a), b), rule)
"""
PLAIN = "grower.scale(penalty).backward()"
CLIP = "nn.utils.clip_grad_norm_(brain.parameters(), 1.0)"
UNDER = "if len(feed) > 1:\n        grower.unscale_(rule)"
WRAPPED = {
    "alone": PLAIN,
    "a name": "big = grower.scale(penalty)\n    big.backward()",
    "unscaled, then clipped": f"{PLAIN}\n    grower.unscale_(rule)\n    {CLIP}",
    "under one condition": f"{PLAIN}\n    {UNDER}\n        {CLIP}",
}
LEFT = {
    "clipped while scaled": f"{PLAIN}\n    {CLIP}",
    "clipped, then unscaled": f"{PLAIN}\n    {CLIP}\n    grower.unscale_(rule)",
    "unscaled under a condition": f"{PLAIN}\n    {UNDER}\n    {CLIP}",
    "read": f"{PLAIN}\n    print(brain.weight.grad.norm())",
    "used otherwise": "big = grower.scale(penalty)\n    (big / 2).backward()",
}


@pytest.mark.parametrize("form", WRAPPED)
def test_a_scaler_is_wrapped(tmp_path: Path, form: str) -> None:
    lines = added(tmp_path, HEAD + SCALER + STEP.format(scale=WRAPPED[form]))
    assert 'grower = dd.wrap_scaler(torch.amp.GradScaler("cuda"))' in lines


def test_a_scaler_in_a_class_is_wrapped(tmp_path: Path) -> None:
    assert "self.inner = dd.wrap_scaler(torch.cuda.amp.GradScaler())" in added(
        tmp_path, HEAD + CLASS
    )


@pytest.mark.parametrize("form", LEFT)
def test_where_scaled_gradients_are_read_it_is_said(tmp_path: Path, form: str) -> None:
    done = convert_text(tmp_path, HEAD + SCALER + STEP.format(scale=LEFT[form]))
    assert b"wrap_scaler" not in done.data
    assert [note.line for note in done.notes if "float16 may overflow" in note.text] == [11]


def test_a_scaler_that_is_switched_off_is_left_alone(tmp_path: Path) -> None:
    off = SCALER.replace('"cuda"', '"cuda", enabled=False')
    done = convert_text(tmp_path, HEAD + off + STEP.format(scale=PLAIN))
    assert b"wrap_scaler" not in done.data
    assert not any("overflow" in note.text for note in done.notes)
