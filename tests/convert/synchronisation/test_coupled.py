"""Losses that mix the samples of a batch are computed on the rows of all ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.errors import DdpifyError
from tests.convert.examples import HEAD, STEP, added, convert_text

PLAIN = "    penalty = F.cross_entropy(brain(a), b)\n"


def test_a_similarity_of_all_pairs(tmp_path: Path) -> None:
    body = "    out = F.normalize(brain(a))\n    penalty = F.cross_entropy(out @ out.t(), b)\n"
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    assert "out = dd.gather(F.normalize(brain(a)))" in lines
    assert "penalty = F.cross_entropy(out @ out.t(), dd.gather(b))" in lines


def test_two_views_are_gathered_one_by_one(tmp_path: Path) -> None:
    body = (
        "    one = brain(a)\n    two = brain(a + 1)\n    both = torch.cat([one, two])\n"
        "    penalty = (both @ both.t()).exp().sum(1).log().mean()\n"
    )
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    assert "one = dd.gather(brain(a))" in lines
    assert "two = dd.gather(brain(a + 1))" in lines
    assert not any("both" in line or "penalty" in line for line in lines)


CONTRASTIVE = """\
class Contrastive(nn.Module):
    def forward(self, rows, kinds):
        same = kinds.unsqueeze(0) == kinds.unsqueeze(1)
        return (rows @ rows.t())[same].mean()


measure = Contrastive()
"""


def test_a_criterion_of_the_script_may_couple_the_batch(tmp_path: Path) -> None:
    body = "    penalty = measure(brain(a), b)\n"
    lines = added(tmp_path, HEAD + CONTRASTIVE + STEP.replace(PLAIN, body))
    assert not any("dd.mean" in line for line in lines)
    assert any("dd.gather" in line for line in lines)


@pytest.mark.parametrize("over", ["median()", "quantile(0.9)", "nanmedian()"])
def test_a_median(tmp_path: Path, over: str) -> None:
    body = f"    rows = brain(a).pow(2).sum(1)\n    penalty = rows.{over}\n"
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    assert f"penalty = dd.gather(rows).{over}" in lines


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rows = brain(a) - mid", "mid = dd.mean(brain(a).mean(), on_rows=True)"),
        ("rows = torch.where(b[:, None] > 0, brain(a), mid)", "dd.mean(brain(a).mean(), on_rows"),
        ("rows = brain(a) / (mid * mid).sqrt()", "mid = dd.mean(brain(a).mean(), on_rows=True)"),
        ("rows = brain(a)\n    print(mid)", "mid = dd.mean(brain(a).mean())"),
    ],
)
def test_a_mean_that_rows_meet_has_the_gradients_of_all_ranks(
    tmp_path: Path, line: str, expected: str
) -> None:
    body = f"    mid = brain(a).mean()\n    {line}\n    penalty = (rows ** 2).mean()\n"
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    assert any(expected in line for line in lines), lines


RADIUS = """\
import numpy as np


class Sphere:
    def __init__(self):
        self.radius = torch.tensor(0.0)


sphere = Sphere()
for a, b in feed:
    rule.zero_grad()
    away = brain(a).pow(2).sum(1)
    penalty = away.mean() + sphere.radius**2
    penalty.backward()
    rule.step()
    sphere.radius.data = torch.tensor(np.quantile(away.detach().numpy(), 0.9))
"""


def test_what_a_tensor_takes_for_the_next_batch_is_of_all_rows(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + RADIUS)
    assert "np.quantile(dd.gather(away.detach().numpy()), 0.9)" in lines


@pytest.mark.parametrize(
    "some",
    [
        "rows[rows > 1]",
        "rows.masked_select(rows > 1)",
        "torch.masked_select(rows, rows > 1)",
        "torch.index_select(rows, 0, (rows > 1).nonzero().squeeze(1))",
    ],
)
def test_a_mean_over_some_of_the_rows(tmp_path: Path, some: str) -> None:
    body = f"    rows = brain(a).pow(2).sum(1)\n    penalty = {some}.mean()\n"
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    assert f"weight=len({some})" in " ".join(lines)


STOPPER = """\
import torch


class Stopper:
    def __init__(self):
        self.stop = False
        self.best = 9.0

    def __call__(self, value, model):
        if value < self.best:
            self.best = value
            torch.save(model.state_dict(), "best.pt")
        else:
            self.stop = True
"""


def test_an_object_of_another_file_that_saves_decides_on_every_rank(tmp_path: Path) -> None:
    (tmp_path / "stopping.py").write_text(STOPPER)
    text = HEAD.replace("import torch\n", "import torch\nfrom stopping import Stopper\n", 1)
    use = "    stopper(penalty.item(), brain)\n    if stopper.stop:\n        break\n"
    lines = added(tmp_path, text + "stopper = Stopper()\n" + STEP + use)
    assert lines[-2:] == ["with dd.main_saves():", "stopper(penalty.item(), brain)"]


def test_each_call_of_a_function_that_saves_is_seen(tmp_path: Path) -> None:
    saving = "import torch\n\n\ndef keep(model, name):\n    torch.save(model, name)\n"
    (tmp_path / "saving.py").write_text(saving)
    text = HEAD.replace("import torch\n", "import torch\nfrom saving import keep\n", 1) + STEP
    lines = added(tmp_path, text + "    keep(brain, 'now.pt')\nkeep(brain, 'last.pt')\n")
    assert lines.count("with dd.main_saves():") == 2


def test_a_text_about_a_model_is_no_model(tmp_path: Path) -> None:
    name = "name = 'log_' + brain.__class__.__name__ + '.csv'\nprint(open(name, 'w'))\n"
    lines = added(tmp_path, HEAD + name + STEP)
    assert "brain = dd.wrap(nn.Linear(4, 3))" in lines


def test_views_under_each_other_stay_in_their_order_through_a_model(tmp_path: Path) -> None:
    body = (
        "    views = torch.cat([a, a + 0.1])\n"
        "    out = F.normalize(brain(views), dim=1)\n"
        "    penalty = F.cross_entropy(out @ out.T, torch.arange(len(out)))\n"
    )
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    assert "out = dd.gather(F.normalize(brain(views), dim=1), stacked=True)" in lines


IN_A_FORWARD = """\
class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, a):
        one = self.one(a)
        two = self.two(a)
        {body}


pairs = Pairs()
pair_rule = torch.optim.SGD(pairs.parameters(), lr=0.1)
for a, b in feed:
    penalty = pairs(a)
    penalty.backward()
    pair_rule.step()
"""


@pytest.mark.parametrize(
    "body",
    [
        "return (one @ two.t()).logsumexp(1).mean()",
        "both = torch.cat([one, two])\n"
        "        near = F.cosine_similarity(both.unsqueeze(1), both.unsqueeze(0), dim=-1)\n"
        "        return near.logsumexp(1).mean()",
        "both = torch.cat([one, two])\n"
        "        return (both[:, None] - both[None]).pow(2).sum(2).logsumexp(1).mean()",
    ],
)
def test_a_forward_that_returns_the_loss_of_all_pairs(tmp_path: Path, body: str) -> None:
    lines = added(tmp_path, HEAD + IN_A_FORWARD.format(body=body))
    assert "one = dd.gather(self.one(a))" in lines
    assert "two = dd.gather(self.two(a))" in lines
    assert not any("dd.mean" in line for line in lines)


def test_a_forward_that_attends_to_the_elements_of_each_sample(tmp_path: Path) -> None:
    body = "return (one.unsqueeze(2) @ two.unsqueeze(1)).softmax(-1).mean()"
    lines = added(tmp_path, HEAD + IN_A_FORWARD.format(body=body))
    assert "penalty = dd.mean(pairs(a))" in lines
    assert not any("dd.gather" in line for line in lines)


NESTED = """\
class Picker(nn.Module):
    def forward(self, kinds):
        return kinds.unsqueeze(0) == kinds.unsqueeze(1)


class Measure(nn.Module):
    def __init__(self, picker):
        super().__init__()
        self.picker = picker

    def forward(self, rows, kinds):
        return (rows @ rows.t())[self.picker(kinds)].mean()


measure = Measure(Picker())
"""


def test_a_criterion_may_hold_another(tmp_path: Path) -> None:
    body = "    penalty = measure(brain(a), b)\n"
    lines = added(tmp_path, HEAD + NESTED + STEP.replace(PLAIN, body))
    assert not any("dd.mean" in line for line in lines)
    assert any("dd.gather(kinds" in line for line in lines)


def test_an_unseen_loss_gets_the_rows_of_all_ranks(tmp_path: Path) -> None:
    text = "import importlib\nmeasure = importlib.import_module('far').Measure()\n" + HEAD
    body = "    out = brain(a)\n    penalty = measure(out, b)\n"
    lines = added(tmp_path, text + STEP.replace(PLAIN, body))
    assert "penalty = measure(dd.gather(out), dd.gather(b))" in lines


def test_an_unseen_loss_beside_a_mean(tmp_path: Path) -> None:
    text = "import importlib\nmeasure = importlib.import_module('far').Measure()\n" + HEAD
    body = "    out = brain(a)\n    first = measure(out, b)\n"
    body += "    second = F.cross_entropy(out, b)\n    penalty = first + second\n"
    lines = added(tmp_path, text + STEP.replace(PLAIN, body))
    assert "first = measure(dd.gather(out), dd.gather(b))" in lines
    assert "second = dd.mean(F.cross_entropy(out, b))" in lines


def test_rows_of_one_branch_are_gathered_before_they_meet_those_of_all(tmp_path: Path) -> None:
    (tmp_path / "mixing.py").write_text(
        "import numpy as np\n\n\ndef mix(x, y):\n"
        "    other = np.random.permutation(len(x))\n    return x + x[other], y[other]\n"
    )
    steps = (
        "mixing = input() == 'mix'\n"
        "for batch in feed:\n"
        "    a, b = batch\n"
        "    if mixing:\n"
        "        a, b = mix(a, b)\n"
        "    rule.zero_grad()\n"
        "    penalty = F.cross_entropy(brain(a), b) + brain(batch[0]).pow(2).mean()\n"
        "    penalty.backward()\n"
        "    rule.step()\n"
        "    if mixing:\n"
        "        b = batch[1].clone()\n"
        "    print(b[0])\n"
    )
    lines = added(tmp_path, "from mixing import mix\n" + HEAD + steps)
    assert "b = dd.gather(batch[1].clone())" in lines
    assert not any("print" in line for line in lines)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x - x.mean(dim=0, keepdim=True)", "x - dd.mean(x.mean(dim=0, keepdim=True))"),
        ("x / torch.std(x, 0)", "x / torch.std(dd.gather(x), 0)"),
        ("x / torch.amax(x, 0)", "x / torch.amax(dd.gather(x), 0)"),
        ("torch.softmax(x, 0)", "dd.split(torch.softmax(dd.gather(x), 0))"),
        ("x - x.mean(dim=1, keepdim=True)", ""),
        ("x - x.mean(-1, keepdim=True)", ""),
        ("torch.cat(torch.chunk(x, 2, dim=0))", ""),
    ],
)
def test_statistics_of_the_batch_in_a_forward_are_of_all_ranks(
    tmp_path: Path, code: str, expected: str
) -> None:
    model = (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.out = nn.Linear(4, 3)\n\n"
        f"    def forward(self, x):\n        return self.out({code})\n\n\nbrain = Net()"
    )
    lines = added(tmp_path, HEAD.replace("brain = nn.Linear(4, 3)", model) + STEP)
    changed = [line for line in lines if "self.out(" in line]
    assert changed == ([f"return self.out({expected})"] if expected else [])


def test_an_extreme_of_the_batch_takes_all_rows_where_it_is_computed(tmp_path: Path) -> None:
    body = "    b = b.clone()\n    print((brain(a).argmax(1) == (b == b.max())).sum())\n" + PLAIN
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    assert "print(dd.sum((brain(a).argmax(1) == (b == dd.gather(b).max())).sum()))" in lines
    assert "b = dd.gather(b.clone())" not in lines


def test_rows_meet_a_comparison_of_the_whole_batch(tmp_path: Path) -> None:
    body = "    out = F.normalize(brain(a))\n    near = (out @ out.t()).argmax(1) == out[:, 0]\n"
    body += "    print((near == b).sum())\n"
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body + PLAIN))
    assert "print((near == dd.gather(b)).sum())" in lines


KERNEL = """\
def kernel(source, target):
    both = torch.cat([source, target], dim=0)
    one = both.unsqueeze(0).expand(int(both.size(0)), int(both.size(0)), int(both.size(1)))
    other = both.unsqueeze(1).expand(int(both.size(0)), int(both.size(0)), int(both.size(1)))
    return torch.exp(-((one - other) ** 2).sum(2))


def discrepancy(source, target):
    n = int(source.size(0))
    found = kernel(source, target)
    return torch.mean(found[:n, :n] + found[n:, n:] - found[:n, n:] - found[n:, :n])


"""


def test_pairs_of_the_rows_of_two_tensors(tmp_path: Path) -> None:
    body = "    x, y = brain(a), brain(a * 2)\n"
    body += "    penalty = F.cross_entropy(x, b) + discrepancy(x, y)\n"
    lines = added(tmp_path, HEAD + KERNEL + STEP.replace(PLAIN, body))
    given = "discrepancy(dd.gather(x), dd.gather(y))"
    assert lines[-1] == f"penalty = dd.mean(F.cross_entropy(x, b)) + {given}"


def test_pairs_of_the_rows_of_two_tensors_in_a_forward(tmp_path: Path) -> None:
    model = (
        "class Net(nn.Linear):\n    def forward(self, x):\n"
        "        x, y = super().forward(x), super().forward(x * 2)\n"
        "        return x, discrepancy(x, y)\n\n\nbrain = Net(4, 3)"
    )
    body = "    out, apart = brain(a)\n    penalty = F.cross_entropy(out, b) + apart\n"
    text = HEAD.replace("brain = nn.Linear(4, 3)", KERNEL + model) + STEP.replace(PLAIN, body)
    assert "return x, discrepancy(dd.gather(x), dd.gather(y))" in added(tmp_path, text)


RAGGED = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

items = [(torch.randn(4), torch.rand(i % 3 + 1, 5)) for i in range(22)]


def put(rows):
    images, boxes = zip(*[row for row in rows if row is not None])
    for i, own in enumerate(boxes):
        own[:, 0] = i
    return torch.stack(images), PUT


feed = DataLoader(items, batch_size=6, shuffle=True, collate_fn=put)
brain = nn.Linear(4, 4)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for images, boxes in feed:
    rule.zero_grad()
    count = boxes.shape[0]
    if count:
        ones = torch.arange(3).view(3, 1).repeat(1, count)[0]
        away = brain(images)[boxes[:, 0].long()] - boxes[:, 1:]
        penalty = (away.abs() * ones[:, None]).mean()
        penalty.backward()
        rule.step()
    READ
"""


def ragged(put: str, read: str = "pass") -> str:
    """A script whose samples bring several rows each, put together in this way."""
    return RAGGED.replace("PUT", put).replace("READ", read)


def test_samples_that_bring_several_rows_each(tmp_path: Path) -> None:
    lines = added(tmp_path, ragged("torch.cat(boxes, 0)", "print(len(boxes))"))
    assert "if dd.sum(count):" in lines
    assert any("weight=len(away.abs() * ones[:, None])" in line for line in lines)
    assert "print(dd.sum(len(boxes)))" in lines
    assert not any("repeat" in line for line in lines)  # as many as the rank's own rows


@pytest.mark.parametrize("put", ["torch.cat([b[None] for b in boxes])", "torch.stack(boxes)"])
def test_samples_that_bring_one_row_each(tmp_path: Path, put: str) -> None:
    lines = added(tmp_path, ragged(put, "print(len(boxes))"))
    assert "print(dd.global_batch_size(boxes))" in lines


def test_rows_that_are_numbered_by_their_rank_are_not_read_together(tmp_path: Path) -> None:
    script = ragged("torch.cat(boxes, 0)", "print(boxes[0])")
    with pytest.raises(DdpifyError, match="collate function numbers the samples"):
        convert_text(tmp_path, script)
    unnumbered = script.replace("        own[:, 0] = i", "        pass").replace(
        "enumerate(boxes)", "[]"
    )
    assert "print(dd.gather_ragged(boxes)[0])" in added(
        tmp_path, unnumbered.replace("for i, own in []", "for own in boxes")
    )


CHOSEN = """\
import argparse
from metrics import Far
parser = argparse.ArgumentParser()
parser.add_argument("--far", action="store_true")
args = parser.parse_args()


class Anchors(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.zeros(3, 3))

    def forward(self, rows, kinds):
        near = torch.exp(-torch.cdist(rows, self.places))
        chosen = F.one_hot(kinds, 3)
        return torch.log(1 + (near * chosen).sum(0)).sum() - torch.log(near.sum(0)).sum()


measure = Far() if args.far else Anchors()
learnt = [{"params": brain.parameters()}]
if not args.far:
    learnt.append({"params": measure.places, "lr": 0.5})
rule = torch.optim.SGD(learnt, lr=0.1)
"""


def test_one_of_several_losses_gets_the_rows_of_all_ranks(tmp_path: Path) -> None:
    """One of them sums over the batch inside, another is not seen: both are right on all rows."""
    body = "    penalty = measure(brain(a), b)\n"
    lines = added(tmp_path, HEAD + CHOSEN + STEP.replace(PLAIN, body))
    assert "penalty = measure(dd.gather(brain(a)), dd.gather(b))" in lines
    assert not any("dd.sum" in line or "dd.mean" in line for line in lines)


def test_a_model_does_not_get_the_rows_of_all_ranks(tmp_path: Path) -> None:
    """What gets the loader's own rows does the work that is to be divided."""
    body = "    penalty = measure(a, b)\n"
    with pytest.raises(DdpifyError, match="where this loss comes from cannot be followed"):
        added(tmp_path, HEAD + CHOSEN + STEP.replace(PLAIN, body))


@pytest.mark.parametrize(
    ("chosen", "some"),
    [
        ("torch.nonzero(b == 1).squeeze(1)", "weights[b[chosen]]"),
        ("b[b > 0]", "weights.index_select(0, chosen)"),
        ("b[b > 0]", "weights[chosen]"),
    ],
)
def test_weights_of_some_of_the_rows(tmp_path: Path, chosen: str, some: str) -> None:
    body = f"    chosen = {chosen}\n    penalty = F.cross_entropy(brain(a), b) + {some}.mean()\n"
    lines = added(tmp_path, HEAD + "weights = brain.weight\n" + STEP.replace(PLAIN, body))
    assert f"weight=len({some})" in " ".join(lines)


POSITIONS = [
    "np.where(mask.numpy() == 1)[0]",
    "np.nonzero(mask.numpy())[0]",
    "torch.where(mask)[0]",
    "torch.nonzero(mask, as_tuple=True)[0]",
    "torch.nonzero(mask).squeeze(1)",
]


@pytest.mark.parametrize("shown", POSITIONS)
def test_the_positions_where_a_mask_holds_are_counted_over_all_ranks(
    tmp_path: Path, shown: str
) -> None:
    """None of a rank's own rows need be among them: then another goes on with the step."""
    text = f"""
for a, b in feed:
    mask = b == 1
    some = {shown}
    if len(some) == 0:
        continue
    penalty = F.cross_entropy(brain(a)[some], b[some])
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""
    lines = added(tmp_path, "import numpy as np\n" + HEAD + text)
    assert "if dd.sum(len(some)) == 0:" in lines
    assert (
        "penalty = dd.mean(F.cross_entropy(brain(a)[some], b[some]), weight=len(b[some]))" in lines
    )


def test_views_under_each_other_are_mixed_in_the_order_of_one_process(tmp_path: Path) -> None:
    body = (
        "    views = torch.cat([a, a + 1])\n    order = torch.randperm(views.size(0))\n"
        "    mixed = 0.7 * views + 0.3 * views[order]\n"
        "    penalty = F.cross_entropy(brain(mixed), torch.cat([b, b]))\n"
    )
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    whole = " ".join(lines)
    assert "0.3 * dd.split( dd.gather(views, stacked=True)[order], stacked=True )" in whole


@pytest.mark.parametrize("split", ["torch.split(outs, len(a))", "outs.split([len(a), len(a)])"])
def test_views_under_each_other_are_taken_apart_by_the_number_of_own_rows(
    tmp_path: Path, split: str
) -> None:
    body = (
        "    outs = brain(torch.cat([a, a + 1]))\n"
        f"    one, two = {split}\n"
        "    penalty = F.cross_entropy(one, b) + F.mse_loss(two, one)\n"
    )
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    assert not any("split" in line for line in lines)
    assert "penalty = dd.mean(F.cross_entropy(one, b) + F.mse_loss(two, one))" in lines


@pytest.mark.parametrize("split", ["torch.split(outs, len(a))", "outs.split(a.size(0))"])
def test_views_under_each_other_are_taken_apart_into_a_list(tmp_path: Path, split: str) -> None:
    body = (
        "    outs = brain(torch.cat([a, a + 1]))\n"
        f"    parts = {split}\n"
        "    penalty = F.cross_entropy(parts[0], b) + F.mse_loss(parts[1], parts[0])\n"
    )
    whole = " ".join(added(tmp_path, HEAD + STEP.replace(PLAIN, body)))
    loss = "F.cross_entropy(parts[0], b) + F.mse_loss(parts[1], parts[0])"
    assert f"penalty = dd.mean( {loss} )" in whole


@pytest.mark.parametrize(
    "split", ["torch.split(outs, size)", "outs.split(size)", "outs.split([size, size])"]
)
def test_views_under_each_other_that_are_cut_by_the_batch_size_are_refused(
    tmp_path: Path, split: str
) -> None:
    head = "size = 6\n" + HEAD.replace("batch_size=6", "batch_size=size")
    body = (
        "    outs = brain(torch.cat([a, a + 1]))\n"
        f"    parts = {split}\n"
        "    penalty = F.cross_entropy(parts[0], b) + F.mse_loss(parts[1], parts[0])\n"
    )
    with pytest.raises(DdpifyError, match="pieces as long as a whole batch"):
        convert_text(tmp_path, head + STEP.replace(PLAIN, body))


STATISTIC = """\
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(5, 3)

    def forward(self, rows):
        out = self.first(rows)
        mid = out.mean(0).mean()
        {lines}
        return self.last(out)


brain = Judge()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "out = torch.cat([out, mid.expand(out.size(0), 1)], 1)",
            "mid = dd.mean(out.mean(0).mean())",
        ),
        (
            "out = torch.cat([out, mid.view(1, 1).repeat(len(out), 1)], dim=1)",
            "dd.mean(mid.view(1, 1)).repeat(",
        ),
    ],
)
def test_a_statistic_of_the_batch_beside_its_rows_is_one_number(
    tmp_path: Path, lines: str, expected: str
) -> None:
    new = added(tmp_path, HEAD + STATISTIC.format(lines=lines) + STEP)
    assert any(expected in line for line in new), new
    assert not any("dd.mean(torch.cat" in line for line in new)


ROWS = "    out = brain(a)\n    each = F.cross_entropy(out, b, reduction='none')\n"

WHOLE = {
    "the largest": ("each.topk(2)[0].mean()", "penalty = dd.gather(each).topk(2)[0].mean()"),
    "a share of them": (
        "torch.topk(each, int(0.5 * len(each)))[0].mean()",
        "penalty = torch.topk(dd.gather(each), int(0.5 * dd.global_batch_size(each)))[0].mean()",
    ),
    "in order": (
        "each.sort(descending=True)[0][:3].mean()",
        "penalty = dd.gather(each).sort(descending=True)[0][:3].mean()",
    ),
    "by their order": (
        "out[each.argsort()[:3]].pow(2).mean()",
        "penalty = dd.gather(out)[dd.gather(each).argsort()[:3]].pow(2).mean()",
    ),
    "a half": (
        "each[: len(each) // 2].mean()",
        "penalty = dd.gather(each)[: dd.global_batch_size(each) // 2].mean()",
    ),
    "a part": ("out.chunk(2)[0].mean()", "penalty = dd.gather(out).chunk(2)[0].mean()"),
    "each with each": (
        "torch.einsum('nc,mc->nm', out, out).mean()",
        "out = dd.gather(brain(a))",
    ),
    "added up": (
        "torch.einsum('ni,nj->ij', out, out).pow(2).sum()",
        "penalty = dd.sum(torch.einsum('ni,nj->ij', out, out)).pow(2).sum()",
    ),
    "by position": (
        "(torch.arange(len(a)) * each).mean()",
        "penalty = (torch.arange(dd.global_batch_size(a)) * dd.gather(each)).mean()",
    ),
    "against the diagonal": (
        "F.cross_entropy(out @ out.t(), torch.arange(len(a)))",
        "penalty = F.cross_entropy(out @ out.t(), torch.arange(dd.global_batch_size(a)))",
    ),
    "against the next": (
        "(out - out[(torch.arange(len(a)) + 1) % len(a)]).pow(2).mean()",
        "penalty = (dd.gather(out) - dd.gather(out)[(torch.arange(dd.global_batch_size(a)) + 1)"
        " % dd.global_batch_size(a)]).pow(2).mean()",
    ),
    "against some": (
        "(out[:, None] - out[torch.randperm(len(a))[:2]]).pow(2).mean()",
        "dd.gather(out)[torch.randperm(dd.global_batch_size(a))[:2]]",
    ),
    "added up by class": (
        "torch.zeros(3, 3).index_add_(0, b, out).pow(2).mean()",
        "out = dd.gather(brain(a))",
    ),
    "by how many classes there are": (
        "each.mean() / len(torch.unique(b)) / len(set(b.tolist()))",
        "/ len(torch.unique(dd.gather(b))) / len(set(dd.gather(b.tolist())))",
    ),
    "below the median": (
        "each[each <= each.median()].mean()",
        "each[each <= dd.gather(each).median()].mean(),"
        " weight=len(each[each <= dd.gather(each).median()])",
    ),
    "what counts": (
        "F.cross_entropy(out, b.masked_fill(b == 2, -100))",
        "weight=(b.masked_fill(b == 2, -100) != -100).sum()",
    ),
    "a mean of each class": (
        "torch.stack([out[b == k].mean() for k in range(2)]).mean()",
        "[dd.mean(out[b == k].mean(), weight=len(out[b == k])) for k in range(2)]",
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_goes_by_the_whole_batch(tmp_path: Path, name: str) -> None:
    loss, expected = WHOLE[name]
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, f"{ROWS}    penalty = {loss}\n"))
    assert expected in "\n".join(lines)
    assert any("dd.gather" in line or "dd.mean" in line or "dd.sum" in line for line in lines)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("out = out / out.abs().max()", "out = out / dd.gather(out.abs()).max()"),
        ("out = (out - out.min()) * 2", "out = (out - dd.gather(out).min()) * 2"),
        ("out /= out.norm()", "out /= dd.gather(out).norm()"),
        ("out = out[:, : int(out.max()) + 1]", "out = out[:, : int(dd.gather(out).max()) + 1]"),
        ("out = out / out.norm(dim=1, keepdim=True)", ""),
    ],
)
def test_an_extreme_of_all_rows_in_a_forward_is_of_all_ranks(
    tmp_path: Path, line: str, expected: str
) -> None:
    text = HEAD + STATISTIC.replace("nn.Linear(5, 3)", "nn.Linear(4, 3)").format(lines=line) + STEP
    lines = added(tmp_path, text.replace("        mid = out.mean(0).mean()\n", ""))
    gathered = [one for one in lines if "dd.gather" in one]
    assert gathered == ([expected] if expected else [])


WITHIN = {
    "the classes": ("out.topk(2)[0].mean()", "penalty = dd.mean(out.topk(2)[0].mean())"),
    "the columns": ("out.chunk(2, 1)[0].mean()", "penalty = dd.mean(out.chunk(2, 1)[0].mean())"),
    "each sample": (
        "torch.einsum('nc,nc->n', out, out).mean()",
        "penalty = dd.mean(torch.einsum('nc,nc->n', out, out).mean())",
    ),
    "its own class": (
        "out[torch.arange(len(a)), b].mean()",
        "penalty = dd.mean(out[torch.arange(len(a)), b].mean())",
    ),
    "two views": (
        "torch.cat([out, out + 1]).chunk(2)[0].mean()",
        "penalty = dd.mean(torch.cat([out, out + 1]).chunk(2)[0].mean())",
    ),
}


@pytest.mark.parametrize("name", WITHIN)
def test_what_each_sample_has_for_itself(tmp_path: Path, name: str) -> None:
    loss, expected = WITHIN[name]
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, f"{ROWS}    penalty = {loss}\n"))
    assert expected in lines
    assert not any("gather" in line for line in lines)


PICKING = """\
class Measure(nn.Module):
    def forward(self, out, goal):
        some = (goal > 0).unsqueeze(-1).expand_as(out)
        boxes = out[some].view(-1, 1)
        chosen = torch.BoolTensor(boxes.size())
        chosen.zero_()
        for i in range(0, boxes.size(0), 2):
            chosen[i + boxes[i : i + 2].max(0)[1]] = True
        return boxes[chosen].pow(2).sum() / len(out)


measure = Measure()
total = 0
"""


def test_a_loss_that_picks_rows_by_position_gets_those_of_all_ranks(tmp_path: Path) -> None:
    body = "    penalty = measure(brain(a), b)\n    total += penalty.data\n"
    lines = added(tmp_path, HEAD + PICKING + STEP.replace(PLAIN, body))
    assert "penalty = measure(dd.gather(brain(a)), dd.gather(b))" in lines
    assert not any("split" in line or "total" in line for line in lines)


EPISODES = """\
def episode(net, rule, a, train):
    rule.zero_grad()
    rows = net(a)
    support = rows[:3]
    penalty = F.cross_entropy(rows[3:] @ support.t(), torch.arange(3))
    if train:
        penalty.backward()
        rule.step()
    return penalty


for a, b in feed:
    print(episode(brain, rule, a, True).item())
for a, b in check:
    print(episode(brain, rule, a, False).item())
"""


def test_rows_that_are_picked_of_a_models_output_are_those_of_all_ranks(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + EPISODES)
    assert "support = dd.gather(rows)[:3]" in lines
    loss = "penalty = F.cross_entropy(dd.gather(rows)[3:] @ support.t(), torch.arange(3))"
    assert loss in lines
    assert not any("replicate" in line for line in lines)


SPREAD = """\
class Trainer:
    def __init__(self):
        self.brain = brain

    def step(self, x, y, kinds=None, *others):
        x, y = self.brain(x), self.brain(y)
        penalty = (x @ y.t()).pow(2).mean()
        rule.zero_grad()
        penalty.backward()
        rule.step()


pairs = DataLoader(TensorDataset(features, features + 1, labels), batch_size=6)
trainer = Trainer()
for batch in pairs:
    trainer.step(*batch)
"""


def test_the_tensors_of_a_batch_that_are_given_one_by_one(tmp_path: Path) -> None:
    """All of ``*batch`` are this rank's rows, not the first alone."""
    lines = added(tmp_path, HEAD + SPREAD)
    assert "x, y = dd.gather(self.brain(x)), dd.gather(self.brain(y))" in lines


def test_as_many_numbers_as_rows_are_this_ranks(tmp_path: Path) -> None:
    body = (
        "    bound = torch.from_numpy(np.repeat(0.5, len(a))).unsqueeze(1)\n"
        "    penalty = F.cross_entropy(torch.where(brain(a) > bound, 0.0, brain(a)), b)\n"
    )
    lines = added(tmp_path, "import numpy as np\n" + HEAD + STEP.replace(PLAIN, body))
    assert not any("bound = " in line for line in lines)


APART = """\
def closeness(rows):
    return torch.exp(-torch.pdist(rows)).mean()


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(x)


brain = Wide()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    a = a.float()
    rule.zero_grad()
    penalty = F.cross_entropy(brain(a), b)
    penalty.backward()
    rule.step()
    print(closeness(a).item())
"""


def test_rows_that_a_model_gets_too_are_gathered_for_a_function_alone(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + APART)
    assert "print(closeness(dd.gather(a)).item())" in lines
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("torch.logcumsumexp({}, 0).mean()", "out"),
        ("torch.cummax({}, 0)[0].mean()", "out"),
        ("torch.diff({}, dim=0).pow(2).mean()", "out"),
        ("torch.msort({}).mean()", "out"),
        ("torch.linalg.svdvals({}).sum()", "out"),
        ("torch.dist({}, a[:, :3])", "out"),
        ("{}.T.softmax(-1).pow(2).sum()", "out"),
        ("F.cosine_similarity({}, a[:, :3], dim=0).sum()", "out"),
        ("F.batch_norm({}, None, None, training=True).pow(3).mean()", "out"),
        ("{}.flatten().topk(3)[0].sum()", "out.flatten()"),
    ],
)
def test_functions_along_the_rows(tmp_path: Path, loss: str, expected: str) -> None:
    body = f"    out = brain(a)\n    penalty = {loss.format('out')}\n"
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, body))
    assert not any("dd.sum" in line or "dd.mean" in line for line in lines)
    gathered = "out = dd.gather(brain(a))", f"dd.gather({expected})"
    assert any(line in gathered or gathered[1] in line for line in lines), lines


@pytest.mark.parametrize(
    "loss",
    [
        "torch.diff({}).mean()",
        "F.cosine_similarity({}, a[:, :3]).mean()",
        "F.pairwise_distance({}, a[:, :3], 1, 0.1).mean()",
        "{}.cummax(1)[0].mean()",
    ],
)
def test_functions_within_each_row(tmp_path: Path, loss: str) -> None:
    line = f"penalty = {loss.format('brain(a)')}"
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, f"    {line}\n"))
    assert line.replace("= ", "= dd.mean(") + ")" in lines


def test_a_dot_product_of_two_columns_is_a_sum_over_the_rows(tmp_path: Path) -> None:
    line = "penalty = torch.dot(brain(a)[:, 0], a[:, 0])"
    lines = added(tmp_path, HEAD + STEP.replace(PLAIN, f"    {line}\n"))
    assert "penalty = dd.sum(torch.dot(brain(a)[:, 0], a[:, 0]))" in lines


PAIRS = """\
class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.alike = nn.CosineSimilarity(dim=2)

    def forward(self, one, two):
        both = torch.cat((one, two))
        return self.alike(both.unsqueeze(1), both.unsqueeze(0)).logsumexp(1).sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        x = self.second(F.relu(self.first(x)))
        x = self.norm(x)
        return x


def fit(brain, rule, measure):
    for a, _ in feed:
        rule.zero_grad()
        one = brain(a)
        two = brain(a + 1)
        penalty = measure(one, two)
        penalty.backward()
        rule.step()
    with torch.no_grad():
        for a, _ in check:
            one = brain(a)
            two = brain(a + 1)
            print(measure(one, two).item())


net = Net()
fit(net, torch.optim.SGD(net.parameters(), lr=0.1), Pairs())
"""


def test_a_criterion_may_hold_layers_without_weights(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD.rsplit("brain", 2)[0] + PAIRS)
    assert lines.count("one = dd.gather(brain(a))") == 2
    assert lines.count("two = dd.gather(brain(a + 1))") == 2
