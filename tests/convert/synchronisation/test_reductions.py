"""Where losses, metrics and counts are made global, one small script each."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import libcst as cst
import pytest

from ddpify.convert import convert_file
from ddpify.planning import plan
from ddpify.planning.conversion_options import Options
from ddpify.planning.gathering import forget_ways_back
from ddpify.planning.plan import Reduction
from ddpify.planning.refusals import Refusal
from ddpify.planning.solver import make_plan
from ddpify.source import read_source
from ddpify.understanding.project import Project
from ddpify.understanding.syntax import names_of
from tests.conftest import FIXTURES
from tests.convert.examples import HEAD, STEP, added, changed_lines, convert_text

EVALUATION = """\
brain.eval()
total = 0
with torch.no_grad():
    for a, b in check:
        out = brain(a)
        {}
print(total)
"""


def step(*lines: str) -> str:
    """A training loop with these lines between the zeroed gradients and the step."""
    body = "\n".join(f"    {line}" for line in lines)
    helper = "def both(out, b):\n    return F.cross_entropy(out, b), len(b)\n\n\n"
    return f"{HEAD}{helper}for a, b in feed:\n    rule.zero_grad()\n{body}\n    rule.step()\n"


LOSSES = {
    "mean": (
        ["x = F.cross_entropy(brain(a), b)", "x.backward()"],
        "x = dd.mean(F.cross_entropy(brain(a), b))",
    ),
    "sum": (
        ["x = F.cross_entropy(brain(a), b, reduction='sum')", "x.backward()"],
        "x = dd.sum(F.cross_entropy(brain(a), b, reduction='sum'))",
    ),
    "size_average": (
        ["x = F.cross_entropy(brain(a), b, size_average=False)", "x.backward()"],
        "x = dd.sum(F.cross_entropy(brain(a), b, size_average=False))",
    ),
    "by hand": (
        ["x = (brain(a) ** 2).mean()", "x.backward()"],
        "x = dd.mean((brain(a) ** 2).mean())",
    ),
    "sum over count": (
        ["x = (brain(a) ** 2).sum() / len(a)", "x.backward()"],
        "x = dd.mean((brain(a) ** 2).sum() / len(a))",
    ),
    "per sample": (
        [
            "each = F.cross_entropy(brain(a), b, reduction='none')",
            "x = each.mean()",
            "x.backward()",
        ],
        "x = dd.mean(each.mean())",
    ),
    "two means": (
        ["x = F.cross_entropy(brain(a), b) + 0.1 * brain(a).pow(2).mean()", "x.backward()"],
        "x = dd.mean(F.cross_entropy(brain(a), b) + 0.1 * brain(a).pow(2).mean())",
    ),
    "accumulated": (
        ["x = F.cross_entropy(brain(a), b)", "x = x / 4", "x.backward()"],
        "x = dd.mean(x / 4)",
    ),
    "chained": (
        ["F.cross_entropy(brain(a), b).backward()"],
        "dd.mean(F.cross_entropy(brain(a), b)).backward()",
    ),
    "ignored targets": (
        ["x = F.cross_entropy(brain(a), b, ignore_index=0)", "x.backward()"],
        "x = dd.mean(F.cross_entropy(brain(a), b, ignore_index=0), weight=(b != 0).sum())",
    ),
    "root of a mean": (
        ["x = torch.sqrt((brain(a) ** 2).mean())", "x.backward()"],
        "x = torch.sqrt(dd.mean((brain(a) ** 2).mean()))",
    ),
    "two halves": (
        ["x = torch.cat([brain(a), -brain(a)]).pow(2).mean()", "x.backward()"],
        "x = dd.mean(torch.cat([brain(a), -brain(a)]).pow(2).mean())",
    ),
    "added tensors": (
        ["x = sum([brain(a), brain(a)]).pow(2).mean()", "x.backward()"],
        "x = dd.mean(sum([brain(a), brain(a)]).pow(2).mean())",
    ),
    "unpacked": (
        ["x, n = both(brain(a), b)", "x.backward()"],
        "x = dd.mean(x)",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_reduced_where_it_gets_its_name(tmp_path: Path, name: str) -> None:
    lines, expected = LOSSES[name]
    assert expected in added(tmp_path, step(*lines))


def test_a_loss_that_is_none_until_it_is_made(tmp_path: Path) -> None:
    text = """
    class Solver:
        def __init__(self):
            self.measure = None

        def build(self):
            self.measure = nn.CrossEntropyLoss()

        def train(self):
            for a, b in feed:
                rule.zero_grad()
                penalty = self.measure(brain(a), b)
                penalty.backward()
                rule.step()

    solver = Solver()
    solver.build()
    solver.train()
    """
    assert "penalty = dd.mean(self.measure(brain(a), b))" in added(tmp_path, HEAD + dedent(text))


def test_a_regulariser_of_the_parameters_is_not_reduced(tmp_path: Path) -> None:
    text = step(
        "fit = F.cross_entropy(brain(a), b, reduction='sum')",
        "decay = sum(p.pow(2).sum() for p in brain.parameters())",
        "x = fit + decay",
        "x.backward()",
    )
    lines = added(tmp_path, text)
    assert "fit = dd.sum(F.cross_entropy(brain(a), b, reduction='sum'))" in lines
    assert not any("decay" in line for line in lines)
    assert not any(line.startswith("x = ") for line in lines)


def test_terms_that_are_read_alone_are_reduced_once(tmp_path: Path) -> None:
    text = step(
        "one = F.cross_entropy(brain(a), b)",
        "two = brain(a).abs().mean()",
        "x = one + two",
        "x.backward()",
        "print(one.item())",
    )
    lines = added(tmp_path, text)
    assert "one = dd.mean(F.cross_entropy(brain(a), b))" in lines
    assert "two = dd.mean(brain(a).abs().mean())" in lines
    assert not any(line.startswith("x = ") for line in lines)


METRICS = {
    "item": (
        "total += (out.argmax(1) == b).sum().item()",
        "total += dd.sum((out.argmax(1) == b).sum()).item()",
    ),
    "float": (
        "total += float(F.mse_loss(out[:, 0], b))",
        "total += float(dd.mean(F.mse_loss(out[:, 0], b)))",
    ),
    "max indices": (
        "total += (torch.max(out, 1)[1] == b).sum().item()",
        "total += dd.sum((torch.max(out, 1)[1] == b).sum()).item()",
    ),
    "size": ("total += a.size(0)", "total += dd.global_batch_size(a)"),
    "shape": ("total += a.shape[0]", "total += dd.global_batch_size(a)"),
    "len": ("total += len(a)", "total += dd.global_batch_size(a)"),
    "mean times count": (
        "total += F.cross_entropy(out, b).item() * len(b)",
        "total += dd.mean(F.cross_entropy(out, b)).item() * dd.global_batch_size(b)",
    ),
    "tensor": ("total = total + out.sum()", "total = total + dd.sum(out.sum())"),
    "nonlinear": (
        "total += torch.log10(F.mse_loss(out[:, 0], b)).item()",
        "total += torch.log10(dd.mean(F.mse_loss(out[:, 0], b))).item()",
    ),
}


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_reduced_where_it_is_read(tmp_path: Path, name: str) -> None:
    line, expected = METRICS[name]
    assert expected in added(tmp_path, HEAD + STEP + EVALUATION.format(line))


def made_as_long(maker: str) -> str:
    return "import numpy as np\n" + step(
        "n = a.size(0)",
        f"table = {maker}",
        "x = F.cross_entropy(brain(a), b)",
        "x.backward()",
        "print(table)",
    )


def test_what_is_made_as_long_as_the_batch_is_this_ranks(tmp_path: Path) -> None:
    lines = added(tmp_path, made_as_long("np.zeros((n, 2))"))
    assert "print(dd.gather(table))" in lines
    assert not any("dd.sum(" in line for line in lines)


@pytest.mark.parametrize("maker", ["np.arange({})", "torch.arange({})", "torch.eye({})"])
def test_numbers_of_the_rows_go_up_to_that_of_all(tmp_path: Path, maker: str) -> None:
    lines = added(tmp_path, made_as_long(maker.format("n")))
    assert f"table = {maker.format('dd.global_batch_size(n)')}" in lines
    assert not any("gather" in line for line in lines)


@pytest.mark.parametrize("maker", ["torch.tensor({})", "torch.tensor([{}, 1])", "np.array([{}])"])
def test_a_tensor_of_the_size_holds_that_of_the_global_batch(tmp_path: Path, maker: str) -> None:
    text = "import numpy as np\n" + step(
        "n = a.size(0)",
        "x = F.cross_entropy(brain(a.view(n, -1)), b)",
        "x.backward()",
        f"seen = {maker.format('n')}",
    )
    assert f"seen = {maker.format('dd.sum(n)')}" in added(tmp_path, text)


def test_sizes_that_shape_tensors_stay_local(tmp_path: Path) -> None:
    text = step(
        "n = a.size(0)",
        "x = F.cross_entropy(brain(a.view(n, -1)), b)",
        "x.backward()",
        "print(n)",
    )
    lines = added(tmp_path, text)
    assert "print(dd.sum(n))" in lines
    assert not any("view" in line and "global_batch_size" in line for line in lines)


def test_lists_that_outlive_a_batch_take_whole_batches(tmp_path: Path) -> None:
    text = f"""{HEAD}{STEP}
seen = []
with torch.no_grad():
    for a, b in check:
        seen.append(brain(a).argmax(1))
print(torch.cat(seen).tolist())
"""
    assert "seen.append(dd.gather(brain(a).argmax(1)))" in added(tmp_path, text)


def test_an_evaluation_that_no_reduction_mends_runs_whole(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + STEP + EVALUATION.format("total = out[:3].tolist()"))
    assert any("dd.replicate(DataLoader" in line for line in lines)


@pytest.mark.parametrize("shown", ["print(out)", "print(f'{out}')", "print('%s' % out)"])
def test_rows_that_an_evaluation_shows_are_gathered_there(tmp_path: Path, shown: str) -> None:
    lines = added(tmp_path, HEAD + STEP + EVALUATION.format(shown))
    assert any("dd.gather(out)" in line for line in lines)
    assert not any("dd.replicate" in line for line in lines)


@pytest.mark.parametrize(
    "shown", ["print(''.join(words))", "print(f'{words}')", "print('%s' % words)"]
)
def test_lists_of_names_by_rows_are_those_of_all_rows(tmp_path: Path, shown: str) -> None:
    words = "    words = ['abc'[k] for k in brain(a).argmax(1)[-1:]]\n"
    lines = added(tmp_path, HEAD + STEP + words + f"    {shown}\n")
    assert "words = ['abc'[k] for k in dd.gather(brain(a).argmax(1))[-1:]]" in lines


def test_an_accuracy_helper_is_followed(tmp_path: Path) -> None:
    text = f"""{HEAD}
def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        size = target.size(0)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        res = []
        for k in topk:
            correct_k = correct[:k].reshape(-1).float().sum(0, keepdim=True)
            res.append(correct_k.mul_(100.0 / size))
        return res

for a, b in feed:
    rule.zero_grad()
    out = brain(a)
    penalty = F.cross_entropy(out, b)
    penalty.backward()
    rule.step()
    top1, top2 = accuracy(out, b, topk=(1, 2))
    print(top1.item())
"""
    assert "top1 = dd.mean(top1)" in added(tmp_path, text)


def test_names_are_never_evidence(tmp_path: Path) -> None:
    text = f"""{HEAD}{STEP}
loss = len([1, 2])
train_loader = [(1, 2)]
for data, target in train_loader:
    print(loss, data)
"""
    assert not any("loss" in line.split("=")[0] for line in added(tmp_path, text))


SQUEEZES = {
    "brain(a)[:, :1].squeeze()": "dd.squeeze(brain(a)[:, :1])",
    "torch.squeeze(brain(a)[:, :1])": "dd.squeeze(brain(a)[:, :1])",
    "brain(a).t().squeeze()": "dd.squeeze(brain(a).t(), dim=1)",
    "brain(a).sum(1, keepdim=True).squeeze_()": "dd.squeeze_(brain(a).sum(1, keepdim=True))",
    "brain(a)[:, :1].squeeze(1)": "brain(a)[:, :1].squeeze(1)",
}


@pytest.mark.parametrize("shown", SQUEEZES)
def test_a_squeeze_of_no_named_dimension_keeps_the_rows(tmp_path: Path, shown: str) -> None:
    text = step(f"out = {shown}", "x = F.mse_loss(brain(a), b)", "x.backward()")
    assert f"out = {SQUEEZES[shown]}\n" in convert_text(tmp_path, text).data.decode()


def test_an_unseen_loss_is_taken_for_a_mean_and_noted(tmp_path: Path) -> None:
    text = f"""from somewhere import Judge
{HEAD}
judge = Judge()
for a, b in feed:
    rule.zero_grad()
    x = judge(brain(a))
    x.backward()
    rule.step()
"""
    conversion = convert_text(tmp_path, text)
    assert b"x = dd.mean(judge(brain(a)), lazy=True)" in conversion.data
    assert [note.line for note in conversion.notes if note.attention] == [16]


OVERLAP = """\
def overlap(x, y, together=False):
    along = (-1, -2) if x.dim() == 2 or not together else (-1, -2, -3)
    both = 2 * (x * y).sum(dim=along)
    return ((both + 1) / (x.sum(dim=along) + y.sum(dim=along) + 1)).mean()


painter = nn.Conv2d(1, 2, 3, padding=1)
rule = torch.optim.SGD(painter.parameters(), lr=0.1)
for a, b in feed:
    rule.zero_grad()
    masks = torch.softmax(painter(a.view(-1, 1, 2, 2)), dim=1).flatten(0, 1)
    wanted = F.one_hot(b % 2, 2).repeat(1, 2).view(-1, 2, 2).repeat_interleave(2, 0)
    penalty = 1 - overlap(masks, wanted, {})
    penalty.backward()
    rule.step()
"""


def test_a_ratio_of_sums_over_the_batch_is_made_of_global_sums(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + OVERLAP.format("together=True"))
    assert "both = dd.sum(2 * (x * y).sum(dim=along))" in lines
    assert not any("dd.mean" in line for line in lines)


def test_the_same_ratio_of_each_sample_is_a_mean(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + OVERLAP.format("together=False"))
    assert "penalty = dd.mean(1 - overlap(masks, wanted, together=False))" in lines
    assert not any("dd.sum" in line for line in lines)


def test_rows_of_a_named_batch_size(tmp_path: Path) -> None:
    text = HEAD.replace("batch_size=6", "batch_size=size").replace("feed =", "size = 4\nfeed =")
    body = step(
        "a = a.reshape(size, -1)",
        "noise, goal = torch.randn(size, 4), torch.ones(size, 3)",
        "x = F.mse_loss(brain(a + noise), goal)",
        "x.backward()",
        "print(x.item() / size)",
    ).replace(HEAD, text)
    lines = added(tmp_path, body)
    assert "a = a.reshape(len(a), -1)" in lines
    assert "noise, goal = dd.split(torch.randn(size, 4)), dd.split(torch.ones(size, 3))" in lines
    assert "x = dd.mean(F.mse_loss(brain(a + noise), goal))" in lines
    assert not any("print" in line for line in lines)


def test_a_line_that_two_calls_need_reduced_differently(tmp_path: Path) -> None:
    evaluation = """\
total = 0
for a, b in check:
    masks = painter(a.view(-1, 1, 2, 2)).flatten(0, 1)
    total += overlap(masks, masks, together=False).item()
print(total)
"""
    lines = added(tmp_path, HEAD + OVERLAP.format("together=True") + evaluation)
    assert "both = dd.sum(2 * (x * y).sum(dim=along))" in lines
    assert any(line.startswith("check = dd.replicate(DataLoader(") for line in lines)


def test_rows_kept_to_look_at_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    text = HEAD.replace("feed =", "kept = {}\nfeed =") + STEP
    text += "    if 'a' not in kept:\n        kept['a'] = a[:2].clone()\n"
    text += "    elif kept['a'].size(0) < 5:\n"
    text += "        kept['a'] = torch.cat((kept['a'], a[:1]), 0)\n"
    lines = added(tmp_path, text + "torch.save(kept['a'], 'kept.pt')\n")
    assert "kept['a'] = dd.gather(a)[:2].clone()" in lines
    assert "kept['a'] = torch.cat((kept['a'], dd.gather(a)[:1]), 0)" in lines
    assert not any("global_batch_size" in line for line in lines)


def test_batches_under_each_other_are_gathered_one_by_one(tmp_path: Path) -> None:
    lines = added(
        tmp_path, HEAD + STEP + "    torch.save(torch.cat((a, brain(a)), 0), 'both.pt')\n"
    )
    assert "dd.save(torch.cat((dd.gather(a), dd.gather(brain(a))), 0), 'both.pt')" in lines


def test_stacked_predictions_keep_their_rows(tmp_path: Path) -> None:
    lines = added(
        tmp_path,
        HEAD + STEP + EVALUATION.format("total += torch.stack([out, -out]).mean(0).sum().item()"),
    )
    assert "total += dd.sum(torch.stack([out, -out]).mean(0).sum()).item()" in lines


def test_rows_that_a_loss_picks_are_those_of_all_ranks(tmp_path: Path) -> None:
    text = step("x = F.cross_entropy(brain(a[:-1]), b[1:])", "x.backward()", "print(x.item())")
    picked = "dd.spread(brain)(dd.gather(a)[:-1]), dd.gather(b)[1:]"
    assert f"x = F.cross_entropy({picked})" in added(tmp_path, text)
    unknown = text.replace("batch_size=6, shuffle=True", "batch_size=6, collate_fn=torch.stack")
    with pytest.raises(Refusal, match="picked from the batch by their position"):
        added(tmp_path, unknown)


def test_a_share_of_a_sum_that_is_printed_too_divides_by_the_whole_batch(tmp_path: Path) -> None:
    text = HEAD + STEP
    text += "    right = (brain(a).argmax(1) == b).sum()\n"
    text += "    share = 100.0 * right / a.size(0)\n"
    lines = added(tmp_path, text + "    print(share.item(), right.item())\n")
    assert "right = dd.sum((brain(a).argmax(1) == b).sum())" in lines
    assert "share = 100.0 * right / dd.global_batch_size(a)" in lines


ATTENTIVE = """\
class Attentive(nn.Module):
    def __init__(self, shows):
        super().__init__()
        self.shows = shows
        self.inner = nn.Linear(4, 2)

    def forward(self, x):
        if self.shows:
            out = self.inner(x)
            return out[:, -1:], out
        last = self.inner(x)[:, -1:]
        return last


brain = Attentive(len(features) > 1)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    rule.zero_grad()
    out = brain(a)[0] if brain.shows else brain(a)
    loss = ((out - b[:, None]) ** 2).mean()
    loss.backward()
    rule.step()
    print(loss.item())
"""


def test_the_first_of_two_outputs_is_no_row_of_one(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + ATTENTIVE)
    assert "loss = dd.mean(((out - b[:, None]) ** 2).mean())" in lines
    assert not any("gather" in line for line in lines)


def test_a_loss_divided_by_an_unpacked_batch_size(tmp_path: Path) -> None:
    lines = added(
        tmp_path,
        HEAD
        + "measure = nn.CrossEntropyLoss(ignore_index=2)\n"
        + "for a, b in feed:\n"
        + "    n, width = a.size()\n"
        + "    rule.zero_grad()\n"
        + "    score = -measure(brain(a), b)\n"
        + "    penalty = -((1 - torch.exp(score)) ** 2) * score\n"
        + "    penalty /= n\n"
        + "    penalty.backward()\n"
        + "    rule.step()\n",
    )
    counted = "weight=(b != measure.ignore_index).sum()"
    assert f"score = -dd.mean(measure(brain(a), b), {counted})" in lines
    assert "penalty /= dd.sum(n)" in lines
    assert not any("backward" in line for line in lines)


WEIGHED = {
    "weights": ("weight=torch.ones(3)", "dd.target_weight(b, measure.weight)"),
    "weights that may be missing": (
        "weight=shares",
        "dd.target_weight(b, measure.weight)",
    ),
    "weights and ignored targets": (
        "weight=torch.ones(3), ignore_index=255",
        "dd.target_weight(b, measure.weight, ignore_index=measure.ignore_index)",
    ),
}


@pytest.mark.parametrize("name", WEIGHED)
def test_weights_of_classes_are_the_denominator(tmp_path: Path, name: str) -> None:
    options, weight = WEIGHED[name]
    begin = "import sys\nshares = torch.ones(3) if len(sys.argv) > 1 else None\n"
    text = step("penalty = measure(brain(a), b)", "penalty.backward()")
    text = text.replace("for a, b", f"{begin}measure = nn.CrossEntropyLoss({options})\nfor a, b", 1)
    assert f"penalty = dd.mean(measure(brain(a), b), weight={weight})" in added(tmp_path, text)


FOCAL = """\
class Focal(nn.Module):
    def __init__(self):
        super().__init__()
        self.ignore_index = 2

    def forward(self, out, y):
        each = F.cross_entropy(out, y, reduction="none", ignore_index=self.ignore_index)
        return ((1 - torch.exp(-each)) * each).mean()


"""
CHOSEN = {
    "two of PyTorch's": (
        "nn.CrossEntropyLoss(weight=torch.ones(3))",
        "nn.CrossEntropyLoss()",
        "dd.mean(measure(brain(a), b), weight=dd.target_weight("
        "b, measure.weight, ignore_index=measure.ignore_index))",
    ),
    "one of the script's own": (
        "nn.CrossEntropyLoss(ignore_index=2)",
        "Focal()",
        "measure(dd.gather(brain(a)), dd.gather(b))",
    ),
}


def test_rows_that_a_mask_may_leave_are_counted_either_way(tmp_path: Path) -> None:
    text = step("out = brain(a)", "if mask:", "    out = out[out > 0]", "x = out.mean()")
    text = text.replace("for a, b", "import sys\nmask = len(sys.argv) > 1\nfor a, b", 1)
    lines = added(tmp_path, text.replace("    rule.step()", "    x.backward()\n    rule.step()", 1))
    assert "x = dd.mean(out.mean(), weight=len(out))" in lines


@pytest.mark.parametrize("name", CHOSEN)
def test_a_loss_that_may_divide_by_one_thing_or_another(tmp_path: Path, name: str) -> None:
    one, other, loss = CHOSEN[name]
    text = step("penalty = measure(brain(a), b)", "penalty.backward()")
    begin = f"import sys\n{FOCAL}measure = {one} if len(sys.argv) > 1 else {other}\n"
    text = text.replace("for a, b", f"{begin}for a, b", 1)
    assert f"penalty = {loss}" in added(tmp_path, text)


CALLED = """\
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.rule = nn.CrossEntropyLoss()

    def __call__(self, out, kinds):
        return self.rule(out, kinds)


judge = Judge()
"""


def test_a_module_that_is_called_past_its_forward(tmp_path: Path) -> None:
    text = step("x = judge(brain(a), b)", "x.backward()").replace("for a", CALLED + "for a", 1)
    conversion = convert_text(tmp_path, text)
    assert b"x = dd.mean(judge(brain(a), b), lazy=True)" in conversion.data
    assert not any(note.attention for note in conversion.notes)


def test_the_elements_of_one_row_are_as_many_on_all_ranks(tmp_path: Path) -> None:
    text = step("x = F.mse_loss(brain(a), b)", "x.backward()", "print(a[0].numel(), a[0].shape)")
    assert b"print(a[0].numel(), a[0].shape)" in convert_text(tmp_path, text).data


def test_rows_that_an_unseen_object_gets_are_whole(tmp_path: Path) -> None:
    text = step("x = F.mse_loss(brain(a), b)", "x.backward()", "axes[0].imshow(a[0].numpy())")
    text = text.replace("for a", "import pictures\nfig, axes = pictures.rows(3)\nfor a", 1)
    assert b"axes[0].imshow(dd.gather(a)[0].numpy())" in convert_text(tmp_path, text).data


SHAPES = {
    "print(a.shape)": "print(dd.global_shape(a))",
    "print(a.size(), a.shape[1:])": "print(dd.global_shape(a), a.shape[1:])",
    "print(f'{list(a.shape)}')": "print(f'{list(dd.global_shape(a))}')",
    "print(a.t().shape)": "print(dd.global_shape(a.t(), dim=1))",
    "mask = torch.ones(a.shape)": "mask = torch.ones(a.shape)",
}


@pytest.mark.parametrize("line", SHAPES)
def test_a_shape_that_is_read_is_that_of_the_global_batch(tmp_path: Path, line: str) -> None:
    text = step("x = F.mse_loss(brain(a), b)", "x.backward()", line)
    assert SHAPES[line] in convert_text(tmp_path, text).data.decode()


def test_rows_are_put_together_before_a_view_of_the_whole_batch(tmp_path: Path) -> None:
    text = step("x = F.mse_loss(brain(a), b)", "x.backward()", "print(brain(a).view(3, -1).max())")
    assert b"print(dd.gather(brain(a)).view(3, -1).max())" in convert_text(tmp_path, text).data


SCORED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x, y=None):
        scores, loss = self.out(x), None
        if y is not None:
            loss = F.cross_entropy(scores, y, ignore_index=-1)
        return scores, loss


brain = Net()"""


def test_a_loss_in_a_forward_that_some_calls_leave_out(tmp_path: Path) -> None:
    steps = STEP.replace("penalty = F.cross_entropy(brain(a), b)", "_, penalty = brain(a, b)")
    text = HEAD.replace("brain = nn.Linear(4, 3)", SCORED) + steps
    lines = added(tmp_path, text + "    print(brain(features)[0])\n")
    counted = "weight=(y != -1).sum()"
    assert f"loss = dd.mean(F.cross_entropy(scores, y, ignore_index=-1), {counted})" in lines
    assert not any("gather" in line for line in lines)


def test_a_sum_divided_by_a_method(tmp_path: Path) -> None:
    loss = "F.mse_loss(brain(a)[:, 0], b, reduction='sum').div(a.size(0))"
    text = step(f"x = {loss}", "x.backward()")
    assert f"x = dd.mean({loss}, lazy=True)" in convert_text(tmp_path, text).data.decode()


def test_the_loss_that_a_closure_adds_up(tmp_path: Path) -> None:
    text = f"""{HEAD}
slow = torch.optim.LBFGS(brain.parameters())
for a, b in feed:
    def closure():
        slow.zero_grad()
        total = 0.0
        for one in [F.cross_entropy(brain(a), b), brain(a).mean()]:
            total += one.mean()
        total.backward()
        return total
    slow.step(closure)
"""
    assert b"return dd.mean(total)" in convert_text(tmp_path, text).data


METER = """\
class Meter:
    def __init__(self):
        self.total, self.number = 0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.number += n


losses, times = Meter(), Meter()
"""


def test_a_meter_gets_the_sum_over_all_ranks(tmp_path: Path) -> None:
    """And not all that it gets is summed: another one counts steps."""
    lines = "losses.update(penalty.item(), sum(b.tolist()))", "times.update(0.5)"
    text = step("penalty = F.cross_entropy(brain(a), b)", "penalty.backward()", *lines)
    found = added(tmp_path, text.replace("for a, b", f"{METER}for a, b", 1))
    assert "losses.update(penalty.item(), dd.sum(sum(b.tolist())))" in found
    assert not any("self." in line for line in found)


HEADS = """\
class Heads(nn.Module):
    def __init__(self, many):
        super().__init__()
        self.many = many
        self.one, self.two = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        if self.many:
            return [self.one(x), self.two(x)]
        return self.one(x)


import sys
many = len(sys.argv) > 1
brain = Heads(many)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    rule.zero_grad()
    out = brain(a)
    if many:
        penalty = sum(F.cross_entropy(one, b) for one in out)
        penalty /= len(out)
        best = out[-1]
    else:
        penalty = F.cross_entropy(out, b)
    penalty.backward()
    rule.step()
"""


def test_a_list_of_outputs_or_a_single_one(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + HEADS)
    assert not any("gather" in line or "len" in line for line in lines)
    # What the one way changes in place is reduced before that.
    assert [line for line in lines if "mean" in line] == [
        "penalty = dd.mean(sum(F.cross_entropy(one, b) for one in out))",
        "penalty = dd.mean(F.cross_entropy(out, b))",
    ]


def test_a_training_that_nothing_calls_stays(tmp_path: Path) -> None:
    unused = "def older(x, y):\n    (x - y).backward()\n"
    conversion = convert_text(tmp_path, HEAD + unused + STEP)
    shown = [note.text for note in conversion.notes if note.attention]
    assert shown == ["nothing here calls this: it stays as it is"]
    wanted = "penalty = dd.mean(F.cross_entropy(brain(a), b), lazy=True)"
    assert changed_lines(conversion)[1][-1] == wanted


HELD = """\
class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x, y):
        return F.cross_entropy(self.out(x), y, ignore_index=0)


class Brain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])
        last = nn.Sequential()
        last.add_module("last", Last())
        self.layers.append(last)

    def forward(self, x, y):
        return self.layers[1][0](self.layers[0](x), y)


"""


def held(forward: str = "") -> str:
    """A script whose loss is computed by a layer in a container, with this line before it."""
    brain = HELD.replace("        return self.layers", f"{forward}        return self.layers")
    text = HEAD.replace("brain = nn.Linear(4, 3)", f"{brain}brain = Brain()", 1)
    return text + STEP.replace("F.cross_entropy(brain(a), b)", "brain(a, b).mean()")


def test_a_loss_in_a_layer_of_a_container(tmp_path: Path) -> None:
    lines = added(tmp_path, held())
    assert any("weight=(y != 0).sum()" in line for line in lines)
    assert not any("penalty" in line for line in lines)  # it is whole by then


def test_a_forward_that_gives_a_reduced_loss_or_rows(tmp_path: Path) -> None:
    other = "        if len(x) > 5:\n            return self.layers[0](x)\n"
    with pytest.raises(Refusal, match="may be one of all ranks already"):
        convert_text(tmp_path, held(other))


LAYER = """\
class Brain(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return MADE


"""


@pytest.mark.parametrize("made", ["nn.Linear(3, 3)(self.out(x))", "nn.LayerNorm(3)(self.out(x))"])
def test_a_layer_that_is_made_in_a_forward(tmp_path: Path, made: str) -> None:
    brain = LAYER.replace("MADE", made)
    text = HEAD.replace("brain = nn.Linear(4, 3)", f"{brain}brain = Brain()", 1) + STEP
    if "LayerNorm" in made:  # which draws nothing
        assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in added(tmp_path, text)
        return
    with pytest.raises(Refusal, match="weights of its own"):
        convert_text(tmp_path, text)


OWN_BACKWARD = """\
class Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bank, y):
        ctx.save_for_backward(x, bank, y)
        return x @ bank.t()

    @staticmethod
    def backward(ctx, grad):
        x, bank, y = ctx.saved_tensors
        back = torch.zeros_like(x).index_add_(0, y, x)
        WRITE
        return grad @ bank, None, None


bank = torch.randn(20, 3)
"""


@pytest.mark.parametrize("write", ["bank.index_copy_(0, y, x)", "back.index_fill_(0, y, 1.0)"])
def test_a_backward_that_writes_what_it_was_given(tmp_path: Path, write: str) -> None:
    scores = OWN_BACKWARD.replace("WRITE", write)
    text = HEAD + scores + STEP.replace("brain(a)", "Scores.apply(brain(a), bank, b)")
    lines = " ".join(added(tmp_path, text))
    assert "Scores.apply(dd.gather(brain(a)), bank, dd.gather(b))" in lines
    assert 'backward="global"' in lines


def test_a_model_that_goes_across_the_rows_of_all_ranks_is_refused(tmp_path: Path) -> None:
    kept = "    kept = torch.stack([row for row in a if row.sum() > 0])\n"
    step = STEP.replace("    penalty = F.cross_entropy(brain(a), b)\n", "{}")
    text = HEAD + step.format(kept + "    penalty = brain(kept).pow(2).mean()\n")
    assert "penalty = dd.spread(brain)(kept).pow(2).mean()" in added(tmp_path, text)
    mixing = text.replace("nn.Linear(4, 3)", "nn.Sequential(nn.Linear(4, 3), nn.Softmax(0))")
    with pytest.raises(Refusal, match="the whole batch on every rank"):
        convert_text(tmp_path, mixing)


def test_a_model_that_is_seen_to_treat_rows_alone_trains_on_a_part_of_all(tmp_path: Path) -> None:
    kept = "    kept = torch.stack([row for row in a if row.sum() > 0])\n"
    step = STEP.replace("    penalty = F.cross_entropy(brain(a), b)\n", "{}")
    text = step.format("    brain.train()\n" + kept + "    penalty = brain(kept).pow(2).mean()\n")
    text += "    brain.eval()\n    for c, d in check:\n        print(brain(c).sum().item())\n"
    assert "penalty = dd.spread(brain)(kept).pow(2).mean()" in added(tmp_path, HEAD + text)


def test_what_is_taken_back_too_often_is_never_decided_there_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = FIXTURES / "reduction_in_helper" / "train.py"
    before = convert_file(script).data  # one decision is taken back once
    monkeypatch.setattr(plan, "_CHANGES_OF_MIND", 0)
    assert convert_file(script).data == before


COUNTED = {
    "elements by a function": ("cells += torch.numel(a)", "cells += dd.sum(torch.numel(a))"),
    "elements of an array": ("cells += a.numpy().size", "cells += dd.sum(a.numpy().size)"),
    "elements of what mixes the rows": (
        "cells += np.bincount(b.numpy(), minlength=3).size",
        "cells += np.bincount(dd.gather(b.numpy()), minlength=3).size",
    ),
    "the shape among other things": (
        "bar.set_postfix(ordered_dict={'loss': penalty.item(), 'of': a.shape})",
        "bar.set_postfix(ordered_dict={'loss': penalty.item(), 'of': dd.global_shape(a)})",
    ),
    "a key of a dictionary": ("assert 'a' in {'a': a, 'b': b}", ""),
    "the absolute value of each element": ("far = abs(a) + a", ""),
    "a first token for each row": ("first = torch.tensor([0] * len(b)).reshape(-1, 1) + b", ""),
    "a method of what may be None": ("vector = coder.encode(a)", ""),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_asked_of_a_batch(tmp_path: Path, name: str) -> None:
    line, expected = COUNTED[name]
    begin = "import numpy as np\nfrom tqdm import tqdm\ncells, coder, bar = 0, None, tqdm([1])\n"
    lines = added(tmp_path, HEAD + begin + STEP + f"    {line}\n")
    asked = [one for one in lines if line.split("(")[0].split(" ")[0] in one and "bar =" not in one]
    assert [one for one in asked if "tqdm" not in one] == ([expected] if expected else [])


def test_a_total_that_both_branches_go_on_with(tmp_path: Path) -> None:
    branches = """\
total = 0
for a, b in check:
    if a.shape[1] > 3:
        total += F.cross_entropy(brain(a), b).item()
    else:
        total += F.cross_entropy(brain(a), b).detach().numpy()
        total += F.l1_loss(brain(a), a[:, :3]).detach().numpy()
print(total)
"""
    lines = added(tmp_path, HEAD + STEP + branches)
    assert [line for line in lines if "total" in line] == [
        "total += dd.mean(F.cross_entropy(brain(a), b)).item()",
        "total += dd.mean(F.cross_entropy(brain(a), b).detach().numpy())",
        "total += dd.mean(F.l1_loss(brain(a), a[:, :3]).detach().numpy())",
    ]


def test_a_divergence_of_distributions_of_rows_has_one_for_each_row(tmp_path: Path) -> None:
    text = (
        "from torch.distributions import Normal, kl_divergence\n" + HEAD + "for a, b in feed:\n"
        "    rule.zero_grad()\n"
        "    out = brain(a)\n"
        "    apart = kl_divergence(Normal(out, out.exp()), Normal(0.0, 1.0)).sum(1).mean()\n"
        "    penalty = F.cross_entropy(out, b) + apart\n"
        "    penalty.backward()\n"
        "    rule.step()\n"
        "    print(apart.item())\n"
    )
    lines = added(tmp_path, text)
    assert "apart = dd.mean(" in lines


PROBE = """\
kept, known = [], []
with torch.no_grad():
    for a, b in feed:
        kept.append(brain(a))
        known.append(b)
kept, known = torch.cat(kept), torch.cat(known)
head = nn.Linear(3, 3)
second = torch.optim.SGD(head.parameters(), lr=0.1)
for epoch in range(3):
    second.zero_grad()
    F.cross_entropy(head(kept), known).backward()
    second.step()
"""


def test_a_second_model_may_train_on_what_the_first_made_of_all_rows(tmp_path: Path) -> None:
    """Its loss is whole on every rank, and so is not reduced."""
    lines = added(tmp_path, HEAD + STEP + PROBE)
    assert "kept.append(dd.gather(brain(a)))" in lines
    assert "head = dd.wrap(nn.Linear(3, 3))" in lines
    assert not any("head(kept)" in line for line in lines)


KEPT_OF_EACH = """\
losses = [{} for a, b in {}]
print(torch.stack(losses).mean())
"""


@pytest.mark.parametrize("batches", ["check", "tqdm(check)"])
def test_what_a_comprehension_keeps_of_each_batch_is_whole(tmp_path: Path, batches: str) -> None:
    loss = "F.cross_entropy(brain(a), b).detach()"
    text = "from tqdm import tqdm\n" + HEAD + KEPT_OF_EACH.format(loss, batches) + STEP
    lines = added(tmp_path, text)
    assert f"dd.mean({loss}) for a, b in" in " ".join(lines)
    assert not any("print" in line for line in lines)


def test_an_iterator_of_the_projects_own_gives_a_comprehension_batches(tmp_path: Path) -> None:
    feeder = (
        "class Feeder:\n    def __init__(self, loader):\n        self.loader = loader\n\n"
        "    def __iter__(self):\n        for a, b in self.loader:\n"
        "            yield a.float(), b\n\n\n"
    )
    loss = "F.cross_entropy(brain(a), b).detach()"
    look = KEPT_OF_EACH.format(loss, "Feeder(check)")
    lines = added(tmp_path, feeder + HEAD + STEP.replace("in feed", "in Feeder(feed)") + look)
    assert f"losses = [dd.mean({loss}) for a, b in Feeder(check)]" in lines


@pytest.mark.parametrize(
    ("printed", "noted"),
    [
        ("penalty", True),
        ("f'{penalty}'", True),
        ("f'{penalty:.3f}'", False),
        ("penalty.item()", False),
    ],
)
def test_a_loss_that_is_printed_as_a_tensor_is_noted(
    tmp_path: Path, printed: str, noted: bool
) -> None:
    notes = convert_text(tmp_path, HEAD + STEP + f"    print({printed})\n").notes
    assert any("grad_fn is printed" in note.text for note in notes) is noted


@pytest.mark.parametrize("base", ["nn.modules.loss._Loss", "nn.modules.loss._WeightedLoss"])
def test_a_loss_that_derives_from_a_base_of_losses_is_looked_into(
    tmp_path: Path, base: str
) -> None:
    text = f"""\
class Both({base}):
    def forward(self, given, wanted):
        one = F.cross_entropy(given, wanted)
        return one + given.pow(2).mean(), one

both = Both()
for a, b in feed:
    rule.zero_grad()
    penalty, one = both(brain(a), b)
    penalty.backward()
    rule.step()
"""
    lines = added(tmp_path, HEAD + text)
    assert "penalty = dd.mean(penalty)" in lines
    assert not any("gather" in line for line in lines)


FLIPPED = """\
def flipped(one, two):
    ones, twos = torch.zeros(one.size()), torch.zeros(two.size())
    for row in range(len(one)):
        side = random.random() < 0.5
        ones[row] = one[row].flip(0) if side else one[row]
        twos[row] = two[row]
    return ones, twos


"""


def test_each_part_of_a_tuple_of_whole_batches_is_split_again(tmp_path: Path) -> None:
    body = "    a, b = flipped(a, b)\n    penalty = (brain(a)[:, 0] - b).mean()\n"
    step = STEP.replace("    penalty = F.cross_entropy(brain(a), b)\n", body)
    lines = added(tmp_path, "import random\n" + HEAD + FLIPPED + step)
    assert "a, b = map(dd.split, flipped(dd.gather(a), dd.gather(b)))" in lines


@pytest.mark.parametrize("gathered", [1, 2])
def test_what_is_split_to_be_gathered_again_stays_whole(tmp_path: Path, gathered: int) -> None:
    body = "    a, b = flipped(a, b)\n    penalty = (brain(a)[:, 0] - b).mean()\n"
    step = STEP.replace("    penalty = F.cross_entropy(brain(a), b)\n", body)
    path = tmp_path / "train.py"
    path.write_text("import random\n" + HEAD + FLIPPED + step)
    plan = make_plan(Project(read_source(path)), Options())
    (call,) = plan.choices.split
    above = cst.ensure_type(plan.site(call).module.parents[call], cst.Assign)
    names = list(names_of(above.targets[0].target))
    for name in names[:gathered]:
        plan.record(Reduction(name, "gather"))
    forget_ways_back(plan)
    assert bool(plan.choices.split) is (gathered < len(names))
    assert any(name in plan.reductions for name in names) is (gathered < len(names))
