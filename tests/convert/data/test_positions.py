"""Loops over the samples of a batch, whose numbers are read one by one."""

from pathlib import Path

import pytest

from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, STEP, added, convert_text

LOOPS = {
    "by number": (
        "    for i in range(b.size(0)):\n        print(i, b[i].item())\n",
        [
            "all_b = dd.gather(b)",
            "for i in range(dd.global_batch_size(b)):",
            "print(i, all_b[i].item())",
        ],
    ),
    "by a number with a name": (
        "    n = len(b)\n    print([b[i].item() for i in range(n)])\n",
        [
            "n = dd.global_batch_size(b)",
            "all_b = dd.gather(b)",
            "print([all_b[i].item() for i in range(n)])",
        ],
    ),
    "each": ("    for y in b:\n        print(y.item())\n", ["for y in dd.gather(b):"]),
    "each with its number": (
        "    for i, y in enumerate(b):\n        print(y.item(), a[i, 0].item())\n",
        ["for i, y in enumerate(dd.gather(b)):", "print(y.item(), all_a[i, 0].item())"],
    ),
    "several in step": (
        "    for x, y in zip(a, b):\n        print(x[0].item(), y.item())\n",
        ["for x, y in zip(dd.gather(a), dd.gather(b)):"],
    ),
    "a name for each": (
        "    for i in range(3):\n        print('%s' % names[b[i]])\n",
        ["print('%s' % names[dd.gather(b)[i]])"],
    ),
    "names of all": (
        "    print([names[y] for y in b])\n",
        ["print([names[y] for y in dd.gather(b)])"],
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_samples_that_are_read_one_by_one_are_those_of_all_ranks(tmp_path: Path, name: str) -> None:
    loop, expected = LOOPS[name]
    lines = added(tmp_path, HEAD + "names = ('x', 'y', 'z')\n" + STEP + loop)
    assert [line for line in lines if line in expected] == expected


def test_a_loop_over_rows_that_stay_where_they_are_is_left_alone(tmp_path: Path) -> None:
    text = HEAD + STEP.replace("brain(a)", "brain(a * mask)").replace(
        "    penalty =",
        "    mask = torch.ones(len(a), 4)\n    for i in range(len(a)):\n        mask[i, :2] = 0\n"
        "    penalty =",
    )
    assert "for i in range(len(a)):" in convert_text(tmp_path, text).data.decode()


EACH = {
    "a sum": (
        "sum(F.cross_entropy(o[None], y[None]) for o, y in zip(brain(a), b))",
        "dd.sum(sum(F.cross_entropy(o[None], y[None]) for o, y in zip(brain(a), b)))",
    ),
    "a mean": (
        "sum([rated(o[None], y[None]) for o, y in zip(brain(a), b)]) / len(b)",
        "dd.mean(sum([rated(o[None], y[None]) for o, y in zip(brain(a), b)]) / len(b))",
    ),
    "stacked": (
        "torch.stack([rated(out[i : i + 1], b[i][None]) for i in range(len(b))]).mean()",
        "dd.mean(torch.stack([rated(out[i : i + 1], b[i][None]) for i in range(len(b))]).mean())",
    ),
    "through a model": (
        "rated(brain(torch.stack([x / x.max() for x in a])), b)",
        "dd.mean(rated(brain(torch.stack([x / x.max() for x in a])), b))",
    ),
    "as a list": (
        "sum(watch([x * 2 for x in a], list({'y': y} for y in b)).values())",
        "dd.mean(sum(watch([x * 2 for x in a], list({'y': y} for y in b)).values()))",
    ),
    "mapped": (
        "torch.stack(list(map(rated, brain(a), b))).mean()",
        "dd.mean(torch.stack(list(map(rated, brain(a), b))).mean())",
    ),
}


def each(loss: str) -> str:
    """The example with a loss that is computed sample by sample."""
    head = HEAD + "import torchvision\nwatch = torchvision.models.detection.fcos_resnet50_fpn()\n"
    head += "rated, weights = F.cross_entropy, [0.5, 1.0] * 3\n"
    lines = "    out = brain(a)\n    penalty = "
    return head + STEP.replace("    penalty = F.cross_entropy(brain(a), b)", lines + loss)


@pytest.mark.parametrize("name", EACH)
def test_all_samples_one_by_one_are_this_ranks_rows(tmp_path: Path, name: str) -> None:
    loss, expected = EACH[name]
    lines = added(tmp_path, each(loss))
    assert f"penalty = {expected}" in lines
    assert not any("dd.gather" in line for line in lines)


APPENDED = (
    "[]\n    for LOOP:\n        penalty.append(STEP)\n    penalty = torch.stack(penalty).mean()"
)


@pytest.mark.parametrize(
    ("loop", "step"),
    [
        ("o, y in zip(out, b)", "rated(o[None], y[None])"),
        ("i in range(len(b))", "rated(out[i][None], b[i][None])"),
        ("i, o in enumerate(out)", "rated(o[None], b[i][None])"),
    ],
)
def test_a_list_that_a_loop_over_all_samples_fills(tmp_path: Path, loop: str, step: str) -> None:
    lines = added(tmp_path, each(APPENDED.replace("LOOP", loop).replace("STEP", step)))
    assert lines[-1] == "penalty = dd.mean(torch.stack(penalty).mean())"


@pytest.mark.parametrize(
    "loss",
    [
        "sum(w * rated(o[None], y[None]) for w, o, y in zip(weights, out, b))",
        "sum(rated(o[None], y[None]) for o, y in zip(out, b) if len(y) > 0)",
        "sum(rated(o[None], y[None]) for o in out for y in b)",
    ],
)
def test_a_loss_that_pairs_samples_is_computed_of_all(tmp_path: Path, loss: str) -> None:
    lines = added(tmp_path, each(loss))
    gathered = loss.replace("out", "dd.gather(out)").replace(" b", " dd.gather(b)")
    assert lines[-1] == f"penalty = {gathered}"


def test_positions_in_what_all_ranks_hold_are_those_of_all_rows(tmp_path: Path) -> None:
    loss = "torch.stack([weights[i] * out[i].sum() for i in range(len(out))]).mean()"
    lines = added(tmp_path, each(loss))
    assert any("all_out[i].sum() for i in range(dd.global_batch_size(out))" in x for x in lines)


DICE = """\
def overlap(x, t, left_out):
    total = 0.0
    size = x.shape[0]
    for i in range(size):
        one, other = x[i].reshape(-1), t[i].reshape(-1)
        if left_out >= 0:
            one, other = one[other != left_out], other[other != left_out]
        both, all_ = torch.dot(one, other), torch.sum(one) + torch.sum(other)
        if all_ == 0:
            all_ = 2 * both
        total += 2 * both / all_
    return total / size


for a, b in feed:
    rule.zero_grad()
    for one in [brain(a)]:
        penalty = 1 - overlap(one, b.float(), 9)
    penalty.backward()
    rule.step()
"""


def test_a_loss_that_goes_through_the_samples_gets_those_of_all_ranks(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + DICE)
    assert lines[-1] == "penalty = 1 - overlap(dd.gather(one), dd.gather(b.float()), 9)"


def test_positions_and_labels_by_which_gathered_outputs_are_read(tmp_path: Path) -> None:
    step = STEP.replace(
        "    penalty = F.cross_entropy(brain(a), b)\n",
        "    out = brain(a)\n    picked = []\n    for i in range(a.size(0)):\n"
        "        picked.insert(0, out[i, b[i]])\n    penalty = -torch.stack(picked).mean()\n",
    )
    lines = added(tmp_path, HEAD + step)
    assert "for i in range(dd.global_batch_size(a)):" in lines
    assert "picked.insert(0, out[i, all_b[i]])" in lines


def test_a_membership_test_asks_all_rows(tmp_path: Path) -> None:
    text = HEAD + STEP + "    if 2 in b:\n        print('two')\n"
    assert "if 2 in dd.gather(b):" in added(tmp_path, text)


def test_a_question_about_all_rows_leaves_them_where_they_are(tmp_path: Path) -> None:
    step = STEP.replace("(a), b)", "(a) * w, b)").replace(
        "    penalty =",
        "    w = a.sum(1, keepdim=True)\n    if (w == 0).any():\n        w = w + 1\n    penalty =",
    )
    lines = added(tmp_path, HEAD + step)
    assert "if dd.gather(w == 0).any():" in lines
    assert "penalty = dd.mean(F.cross_entropy(brain(a) * w, b))" in lines


FILLED = """\
def targets(x, y, size):
    mask = torch.ones(size, 3)
    for i in range(size):
        if int(y[i]) == 1 and x[i].sum() > 0:
            mask[i, 1] = 0
    return mask, 2 * mask


"""


def test_rows_that_are_filled_by_what_is_read_of_all_samples(tmp_path: Path) -> None:
    step = STEP.replace("F.cross_entropy(brain(a), b)", "F.cross_entropy(brain(a) * m, b)").replace(
        "    penalty =", "    m, n = targets(brain(a), b, a.shape[0])\n    penalty ="
    )
    lines = added(tmp_path, HEAD + FILLED + step)
    assert "mask = dd.gather(torch.ones(size, 3))" in lines
    assert "for i in range(dd.global_batch_size(size)):" in lines
    assert "if int(dd.gather(y)[i]) == 1 and dd.gather(x)[i].sum() > 0:" in lines
    assert lines[-1] == "penalty = dd.mean(F.cross_entropy(brain(a) * dd.split(m), b))"


def test_a_write_into_the_first_row_is_refused(tmp_path: Path) -> None:
    step = STEP.replace("    penalty =", "    a[0] = 0\n    penalty =")
    with pytest.raises(Refusal, match="a write into the row at one position"):
        convert_text(tmp_path, HEAD + step)


BOXES = """\
def boxes(rows):
    return [[x.item() for x in row] for row in rows]


for a, b in check:
    n = a.shape[0]
    found = boxes(brain(a))
    for i in range(n):
        print(len(found[i]))
"""


CELLS = """\
def cells(rows):
    found = []
    for i in range(rows.shape[0]):
        found.append([rows[i, k].item() for k in range(3)])
    return found


for a, b in feed:
    n = a.shape[0]
    found = cells(brain(a))
    for i in range(n):
        print(len(found[i]))
"""


def test_a_list_that_a_function_makes_of_gathered_rows(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + STEP + CELLS)
    assert "n = dd.global_batch_size(a)" in lines
    assert "found = cells(dd.gather(brain(a)))" in lines


def test_a_list_of_what_was_gathered_is_gone_through_to_its_end(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + STEP + BOXES.replace("check", "feed"))
    assert "n = dd.global_batch_size(a)" in lines
    assert "return [[x.item() for x in row] for row in dd.gather(rows)]" in lines


def test_lists_of_anything_are_not_gathered(tmp_path: Path) -> None:
    """Their items may be of any kind and size: what reads them gets whole batches."""
    head = HEAD.replace("batch_size=6)", "batch_size=6, collate_fn=lambda b: tuple(zip(*b)))")
    read = "for a, b in check:\n    for x in a:\n        print(x.sum().item())\n"
    lines = added(tmp_path, head + STEP + read)
    assert any(line.startswith("check = dd.replicate(") for line in lines)
    assert not any("dd.gather" in line for line in lines)
    trained = STEP.replace("in feed", "in check").replace("brain(a)", "brain(torch.stack(a))")
    step = trained.replace("cross_entropy", "mse_loss").replace(", b)", ", brain(a[0]))")
    with pytest.raises(Refusal, match="picked from the batch"):
        convert_text(tmp_path, head + step)


FILLED_BY_A_FUNCTION = """\
def fill(y, table, i):
    table[i] = y.sum() if y.sum() > 1 else 0


class Filled(nn.Module):
    def forward(self, rows, kinds):
        table = torch.zeros(rows.size(0))
        for i in range(rows.size(0)):
            fill(kinds[i], table, i)
        return (rows.sum(1) - table).pow(2).sum()


measure = Filled()
"""


def test_a_function_that_fills_its_callers_rows_gets_no_copy_of_them(tmp_path: Path) -> None:
    step = STEP.replace("F.cross_entropy(brain(a), b)", "measure(brain(a), b)")
    lines = added(tmp_path, HEAD + FILLED_BY_A_FUNCTION + step)
    assert "table = dd.gather(torch.zeros(rows.size(0)))" in lines
    assert "fill(all_kinds[i], table, i)" in lines
    assert "return (dd.gather(rows.sum(1)) - table).pow(2).sum()" in lines


SAMPLE_BY_SAMPLE = """\
class Sampled(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, rows, kinds):
        out, parts = self.body(rows), []
        for i in range(rows.shape[0]):
            one, weights = out[i, :], torch.ones(3)
            {lines}
            parts.append({part})
        return torch.stack(parts).mean()


brain = Sampled()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        ("n = (one > 0).sum()", "one.sum() / torch.clamp(n.float(), min=1)"),
        ("n = 1 if (one > 0).sum() > 0 else 2", "one.sum() / n"),
        ("n = torch.min(one, weights).mean()", "(weights * one).sum() ** 2 / n"),
        ("n = F.l1_loss(one, weights)", "n / (1 + F.mse_loss(one, weights, reduction='sum'))"),
    ],
)
def test_sums_over_one_sample_in_a_forward_are_the_samples_own(
    tmp_path: Path, lines: str, part: str
) -> None:
    text = HEAD + SAMPLE_BY_SAMPLE.format(lines=lines, part=part)
    new = added(tmp_path, text + STEP.replace("F.cross_entropy(brain(a), b)", "brain(a, b)"))
    assert [line for line in new if "dd.sum" in line or "dd.mean" in line] == [
        "penalty = dd.mean(brain(a, b))"
    ]


TWO_SIDES = """\
class Sides(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return {("side", 0): features[i], ("side", 1): -features[i], "kind": labels[i]}


feed = DataLoader(Sides(), batch_size=6)
for batch in feed:
    rule.zero_grad()
    outs = {}
    for side in (0, 1):
        outs["out", side] = brain(batch[("side", side)])
    penalty = F.cross_entropy(outs["out", 0] + outs["out", 1], batch["kind"])
    penalty.backward()
    rule.step()
"""
NAMED = """\
class Named(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return {"left": features[i], "right": -features[i], "kind": labels[i]}


feed = DataLoader(Named(), batch_size=6)
for batch in feed:
    rule.zero_grad()
    penalty = 0
    for name in ["left", "right"]:
        penalty = penalty + F.cross_entropy(brain(batch[name]), batch["kind"])
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize("text", [TWO_SIDES, NAMED])
def test_keys_of_a_batch_are_no_positions(tmp_path: Path, text: str) -> None:
    """Tuples with text in them, and a name out of several, are keys of a dictionary of tensors."""
    lines = added(tmp_path, HEAD + text)
    assert any("dd.mean(" in line for line in lines)
    assert not any("dd.gather" in line for line in lines)


def test_a_part_of_several_outputs(tmp_path: Path) -> None:
    """Of a tuple, not of the rows of what it holds."""
    text = """\
class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x), self.layer(x * 2), self.layer(x * 3)


brain = Scales()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    outs = brain(a)
    penalty = F.cross_entropy(outs[0], b)
    for out in outs[1:]:
        penalty = penalty + 0.5 * F.cross_entropy(out, b)
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""
    lines = added(tmp_path, HEAD[: HEAD.index("brain =")] + text)
    assert any("dd.mean(" in line for line in lines)
    assert not any("dd.gather" in line for line in lines)


def test_a_row_of_what_unseen_code_made_is_one_of_all_ranks(tmp_path: Path) -> None:
    """What a function works on along its second dimension is a tensor, and no list of them."""
    text = "import unseen\n" + HEAD.replace("nn.Linear(4, 3)", "unseen.Net()") + STEP
    text += (
        "    kinds = torch.argmax(brain(a), dim=1, keepdim=True)\n    print(kinds[1, ...] * 50)\n"
    )
    assert "print(dd.gather(kinds)[1, ...] * 50)" in added(tmp_path, text)


LABELED_FIRST = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return self.one(x), self.two(x)


def build(kind):
    return Two() if kind == "two" else nn.Linear(4, 3)


count, kind = 4, "one"
student, teacher = build(kind), build(kind)
rows = TensorDataset(torch.randn(40, 4), torch.randint(0, 3, (40,)))
streams = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(rows), 10, True)
feed = DataLoader(rows, batch_sampler=streams)
rule = torch.optim.SGD(student.parameters(), lr=0.1)
for a, b in feed:
    other = a[count:]
    soft = torch.softmax(student(a), dim=1)
    with torch.no_grad():
        guess = torch.softmax(teacher(other + torch.randn_like(other)), dim=1)
    known = F.nll_loss(soft[:count].log(), b[:][:count])
    alike = torch.mean((soft[count:] - guess) ** 2)
    rule.zero_grad()
    (known + alike).backward()
    rule.step()
"""


def test_the_first_of_a_batch_are_learnt_from_and_the_others_compared(tmp_path: Path) -> None:
    """They are those of the whole batch, of which a teacher sees the others on every rank."""
    lines = added(tmp_path, LABELED_FIRST)
    assert "other = dd.gather(a)[count:]" in lines
    assert "known = F.nll_loss(dd.gather(soft)[:count].log(), dd.gather(b[:])[:count])" in lines
    assert "alike = torch.mean((dd.gather(soft)[count:] - guess) ** 2)" in lines
    assert "student = dd.wrap(student)" in lines


SEEN_AGAIN = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        steps = [self.first(x), x]
        return self.last(steps[0])


brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


def test_lists_in_a_forward_hold_what_that_call_of_the_model_made(tmp_path: Path) -> None:
    """However many calls there are: those on whole rows hold no rank's."""
    calls = "    print(brain(a).sum().item())\n" * 17
    text = HEAD + SEEN_AGAIN + STEP + calls + "print(brain(torch.eye(4)).sum().item())\n"
    lines = added(tmp_path, text)
    assert lines.count("print(dd.sum(brain(a).sum()).item())") == 17
    assert not any("eye" in line for line in lines)


def test_rows_that_another_file_numbers_are_gathered_where_they_are_cut(tmp_path: Path) -> None:
    shown = (
        "def show(rows):\n    for i, row in enumerate(rows):\n        print(i, row.sum().item())\n"
    )
    (tmp_path / "shown.py").write_text(shown)
    text = HEAD.replace("import torch\n", "import torch\nfrom shown import show\n", 1)
    step = STEP.replace("    rule.zero_grad()\n", "    a, b = a.view(len(a), -1), b.long()\n")
    step = step.replace("    penalty = ", "    out = brain(a)\n    penalty = ").replace(
        "brain(a), b", "out, b"
    )
    lines = added(tmp_path, text + step + "    show(a.view(-1, 2, 2)[:3].numpy())\n")
    assert "show(dd.gather(a.view(-1, 2, 2))[:3].numpy())" in lines
