"""What a function computes goes by the defaults of its parameters, where a call leaves them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.convert.examples import HEAD, STEP, added

PLAIN = "penalty = F.cross_entropy(brain(a), b)"
FOCAL = """\
def focal(scores, kinds, gamma=2.0, reduction="mean"):
    gap = F.cross_entropy(scores, kinds, reduction="none")
    gap = (1 - torch.exp(-gap)) ** gamma * gap
    if reduction == "mean":
        return gap.mean()
    elif reduction == "sum":
        return gap.sum()
    return gap
"""
REBOUND = """\
def focal(scores, kinds, *, reduction="mean"):
    gap = F.cross_entropy(scores, kinds, reduction="none")
    if reduction == "mean":
        gap = gap.mean()
    elif reduction == "sum":
        gap = gap.sum()
    return gap
"""
KEEPING = """\
def focal(scores, kinds, keepdim=False):
    gap = F.cross_entropy(scores, kinds, reduction="none")
    if keepdim:
        return gap
    else:
        return gap.mean()
"""
CHOSEN = """\
def focal(scores, kinds, keepdim=False):
    gap = F.cross_entropy(scores, kinds, reduction="none")
    return gap if keepdim else gap.mean()
"""
MASKED = """\
def focal(scores, kinds, mask=None):
    gap = F.cross_entropy(scores, kinds, reduction="none")
    if mask is not None:
        return (gap * mask).sum() / mask.sum()
    return gap.mean()
"""


@pytest.mark.parametrize("function", [FOCAL, REBOUND, KEEPING, CHOSEN, MASKED])
def test_a_loss_is_reduced_as_its_default_says(tmp_path: Path, function: str) -> None:
    lines = added(tmp_path, HEAD + function + STEP.replace(PLAIN, "penalty = focal(brain(a), b)"))
    assert "penalty = dd.mean(focal(brain(a), b))" in lines


def test_none_is_none_of_the_names_that_a_test_asks_for(tmp_path: Path) -> None:
    function = FOCAL.replace('reduction="mean"', "reduction=None")
    uses = "penalty = (focal(brain(a), b) - focal(brain(a), b, 1.0)).mean()"
    lines = added(tmp_path, HEAD + function + STEP.replace(PLAIN, uses))
    assert "penalty = dd.mean((focal(brain(a), b) - focal(brain(a), b, 1.0)).mean())" in lines


def test_what_a_call_passes_goes_before_the_default(tmp_path: Path) -> None:
    call = 'penalty = focal(brain(a), b, reduction="sum")'
    lines = added(tmp_path, HEAD + FOCAL + STEP.replace(PLAIN, call))
    assert 'penalty = dd.sum(focal(brain(a), b, reduction="sum"))' in lines


def test_a_default_of_what_trains_is_a_setting(tmp_path: Path) -> None:
    """The user may change it: both losses are made whole."""
    train = """\
def step(a, b, squared=False):
    if squared:
        penalty = (brain(a).sum(1) - b).pow(2).mean()
    else:
        penalty = F.cross_entropy(brain(a), b, reduction="sum")
    rule.zero_grad()
    penalty.backward()
    rule.step()
for a, b in feed:
    step(a, b)
"""
    lines = added(tmp_path, HEAD + train)
    assert "penalty = dd.mean((brain(a).sum(1) - b).pow(2).mean())" in lines
    assert 'penalty = dd.sum(F.cross_entropy(brain(a), b, reduction="sum"))' in lines


def test_a_parameter_that_is_set_again_has_no_default(tmp_path: Path) -> None:
    function = FOCAL.replace("    gap =", "    reduction = choose()\n    gap =", 1)
    lines = added(tmp_path, HEAD + function + STEP.replace(PLAIN, "penalty = focal(brain(a), b)"))
    assert "gap = dd.gather((1 - torch.exp(-gap)) ** gamma * gap)" in lines


def test_what_follows_a_branch_that_the_default_leaves(tmp_path: Path) -> None:
    """An early return under a condition says nothing about the default."""
    function = """\
def focal(scores, kinds, plain=False):
    if scores.size(1) == 2:
        if not plain:
            return F.cross_entropy(scores, kinds)
    return F.cross_entropy(scores, kinds, reduction="sum") / len(kinds)
"""
    lines = added(tmp_path, HEAD + function + STEP.replace(PLAIN, "penalty = focal(brain(a), b)"))
    assert "penalty = dd.mean(focal(brain(a), b))" in lines


GIVEN = """\
def distance(out, kinds, weight=None, shown=True):
    each = F.cross_entropy(out, kinds, reduction="none")
    if weight is not None:
        each = each * weight
    if shown:
        print(each)
    return each.mean()


"""


def test_what_a_call_gives_by_name_is_no_setting(tmp_path: Path) -> None:
    step = STEP.replace("F.cross_entropy(brain(a), b)", "distance(brain(a), b, shown=False)")
    assert not any("gather" in line for line in added(tmp_path, GIVEN + HEAD + step))


EPOCH = """\
def epoch(loader, training=True):
    seen = []
    for a, b in loader:
        out = brain(a)
        if training:
            penalty = F.cross_entropy(out, b)
            rule.zero_grad()
            penalty.backward()
            rule.step()
            seen.append(penalty.item())
    if training:
        return max(seen), len(seen)
    return out.detach().numpy(), b.numpy()
worst, steps = epoch(feed)
print(worst, steps)
"""


@pytest.mark.parametrize("told", ["training=False", "False"])
def test_a_flag_that_other_calls_tell_is_what_its_default_says(tmp_path: Path, told: str) -> None:
    lines = added(tmp_path, HEAD + EPOCH + f"rows, kinds = epoch(check, {told})\nprint(rows)\n")
    assert not any("worst" in line or "steps" in line for line in lines)


FIELD = """\
import json
from dataclasses import dataclass
@dataclass
class Options:
    mean: bool = True
"""
PARAMETER = """\
import json
class Options:
    def __init__(self, mean=True):
        self.mean = mean
"""


@pytest.mark.parametrize("made", [FIELD, PARAMETER])
@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("**json.load(open('options.json'))", False),
        ("**{'mean': True}", True),
        ("**{}", True),
        ("", True),
    ],
)
def test_options_from_a_file_go_before_a_default(
    tmp_path: Path, made: str, given: str, *, known: bool
) -> None:
    loss = 'gap = F.cross_entropy(brain(a), b, reduction="none")\n    '
    loss += "penalty = gap.mean() if options.mean else gap.sum()"
    text = HEAD + made + f"options = Options({given})\n" + STEP.replace(PLAIN, loss)
    either = "penalty = dd.mean(gap.mean()) if options.mean else dd.sum(gap.sum())"
    assert (either in added(tmp_path, text)) is not known


TOLD = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.brain = nn.Linear(4, 3)

    def forward(self, x, y=None, mode=DEFAULT):
        scores = self.brain(x)
        if TEST:
            return F.cross_entropy(scores, y), scores
        else:
            return scores
"""
FLAGS = ["mode", "mode == True", "mode is True", "mode == 1", "mode != False", "True == mode"]
TEXTS = ["mode in ('train', 'fit')", "mode not in ['test']", "'train' == mode", "'rai' in mode"]
NUMBERS = ["mode > 1", "mode >= 2", "mode < 3 and mode != 0", "not mode == 0"]


@pytest.mark.parametrize(
    ("test", "default", "other"),
    [
        *((test, "True", "False") for test in FLAGS),
        *((test, "'train'", "'test'") for test in TEXTS),
        *((test, "2", "0") for test in NUMBERS),
    ],
)
def test_a_forward_gives_what_it_is_told_to(
    tmp_path: Path, test: str, default: str, other: str
) -> None:
    """By its default a loss, too, and else all scores alone."""
    made = TOLD.replace("TEST", test).replace("DEFAULT", default)
    made += "brain = Net()\nrule = torch.optim.SGD(brain.parameters(), lr=0.1)\n"
    text = HEAD + made + STEP.replace(PLAIN, "penalty, scores = brain(a, b)")
    right = f"(brain(a, mode={other}).argmax(1) == b).sum()"
    lines = added(tmp_path, f"{text}for a, b in check:\n    print({right}.item())\n")
    assert "penalty = dd.mean(penalty)" in lines
    assert f"print(dd.sum({right}).item())" in lines


def test_what_it_is_told_to_trains_the_same(trial: Trial) -> None:
    made = TOLD.replace("TEST", "mode in ('train', 'fit')").replace("DEFAULT", "'train'")
    made += "brain = Net()\nrule = torch.optim.SGD(brain.parameters(), lr=0.1)\n"
    step = STEP.replace(PLAIN, "penalty, scores = brain(a, b)") + "    print(penalty.item())\n"
    head = "torch.manual_seed(0)\ntorch.set_default_dtype(torch.float64)\n"
    text = HEAD.replace("features, labels", f"{head}features, labels", 1) + made + step
    text += "for a, b in check:\n    print(brain(a, mode='test').sum().item())\n"
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
