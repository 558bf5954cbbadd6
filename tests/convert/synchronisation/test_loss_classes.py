"""Losses in classes of a project: options of their base, losses of what a mask leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added, changed_lines, convert_text

MASKED = """\
class Masked(nn.Module):
    def __init__(self, reduction="mean"):
        super().__init__()
        self.inner = nn.MSELoss(reduction=reduction)

    def forward(self, out, kinds):
        mask = out > 0
        return self.inner(torch.masked_select(out, mask), torch.masked_select(out * 2, mask))
"""
OWN = """\
class Own(nn.CrossEntropyLoss):
    def forward(self, out, kinds):
        options = {"ignore_index": self.ignore_index, "reduction": self.reduction}
        return F.cross_entropy(out, kinds.long(), weight=self.weight, **options)
"""
PLAIN = "penalty = F.cross_entropy(brain(a), b)"


def _step(penalty: str) -> str:
    lines = f"each = judge(brain(a), b)\n    penalty = {penalty}"
    return STEP.replace(PLAIN, lines) + "    print(len(each))\n"


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        ("each.mean()", ["penalty = dd.mean(each.mean(), weight=len(each))"]),
        ("each.sum() / len(each)", ["penalty = dd.sum(each.sum()) / dd.sum(len(each))"]),
    ],
)
def test_losses_of_what_a_mask_leaves_are_as_many(
    tmp_path: Path, penalty: str, expected: list[str]
) -> None:
    text = HEAD + MASKED + "judge = Masked('none')\n" + _step(penalty)
    lines = changed_lines(convert_text(tmp_path, text))[1]
    assert [line for line in lines if "each" in line] == [*expected, "print(dd.sum(len(each)))"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("Own(reduction='none')", "penalty = dd.mean(judge(brain(a), b).mean())"),
        ("Own(reduction='sum')", "penalty = dd.sum(judge(brain(a), b).mean())"),
        ("Own()", "penalty = dd.mean(judge(brain(a), b).mean())"),
    ],
)
def test_a_loss_reduces_as_its_base_was_told(tmp_path: Path, made: str, expected: str) -> None:
    step = STEP.replace(PLAIN, "penalty = judge(brain(a), b).mean()")
    assert expected in added(tmp_path, HEAD + OWN + f"judge = {made}\n" + step)


def test_a_count_for_either_loss_is_the_sum_over_the_ranks(tmp_path: Path) -> None:
    made = "judge = Own(reduction='none') if len(feed) > 2 else Masked('none')\n"
    text = HEAD + MASKED + OWN + made + _step("each.sum() / len(each)")
    lines = added(tmp_path, text)
    assert "penalty = dd.sum(each.sum()) / dd.sum(len(each))" in lines
    assert "print(dd.sum(len(each)))" in lines


LOADED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.last = nn.Dropout(0.1), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.drop(x))


def restored(net, path, steps=None):
    net.load_state_dict(torch.load(path))
    if steps is None:
        return net
    return net, steps


brain, steps = restored(Net(), "last.pt", steps=3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


def test_what_a_tuple_is_unpacked_of_is_no_model(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + LOADED + STEP)
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines
    assert not any("dd.split(" in line for line in lines)


@pytest.mark.parametrize(
    "judged", ["dice(brain(a), b)", "wise.dice(brain(a), b)", "dice(brain(a), b).mean()"]
)
def test_a_loss_that_cannot_be_read_gets_the_rows_of_all_ranks(tmp_path: Path, judged: str) -> None:
    step = STEP.replace("F.cross_entropy(brain(a), b)", judged)
    lines = added(tmp_path, f"import wise\n{HEAD}dice = wise.Dice()\n{step}")
    whole = judged.replace("(brain(a), b)", "(dd.gather(brain(a)), dd.gather(b))")
    assert f"penalty = {whole}" in lines
