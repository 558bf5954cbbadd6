"""Gradients that a script reads: of samples, and of tensors of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning.refusals import Refusal
from tests.convert.examples import HEAD, STEP, added, convert_text

LOOP = """\
for a, b in feed:
    rule.zero_grad()
    a.requires_grad_()
    cost = F.cross_entropy(brain(a), b)
    STEP
    rule.zero_grad()
    penalty = F.cross_entropy(brain(harder.detach()), b)
    penalty.backward()
    rule.step()
"""


def lines_of(folder: Path, step: str) -> list[str]:
    """The lines that a conversion adds, with a step that makes harder samples."""
    return added(folder, HEAD + LOOP.replace("STEP", step))


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        ("harder = a + a.grad", "harder = a + (a.grad / dd.world_size())"),
        ("harder = a + a.grad\n    a.grad.zero_()", "harder = a + (a.grad / dd.world_size())"),
        ("g = a.grad.data\n    harder = a + g", "g = (a.grad / dd.world_size()).data"),
        ("harder = torch.add(a, a.grad)", "harder = torch.add(a, a.grad / dd.world_size())"),
        ("harder = a * (a.grad > 1)", "harder = a * ((a.grad / dd.world_size()) > 1)"),
    ],
)
def test_the_gradient_of_samples(tmp_path: Path, read: str, wanted: str) -> None:
    assert wanted in lines_of(tmp_path, f"cost.backward()\n    {read}")


@pytest.mark.parametrize(
    "read",
    [
        "harder = a + a.grad.sign()",
        "harder = a + torch.sign(a.grad.detach())",
        "harder = a * (a.grad > 0)",
        "harder = a\n    if a.grad is not None:\n        a.grad.zero_()\n        a.grad = None",
    ],
)
def test_a_gradient_of_which_the_sign_alone_is_read(tmp_path: Path, read: str) -> None:
    assert not any(
        "world_size" in line for line in lines_of(tmp_path, f"cost.backward()\n    {read}")
    )


def test_gradients_that_autograd_gives_of_a_loss(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "harder = a + torch.autograd.grad(cost, a)[0]")
    assert "harder = a + torch.autograd.grad(cost / dd.world_size(), a)[0]" in lines
    lines = lines_of(tmp_path, "harder = torch.autograd.grad(brain(a).mean(), a)[0]")
    wanted = "torch.autograd.grad(dd.mean(brain(a).mean()) / dd.world_size(), a)[0]"
    assert f"harder = {wanted}" in lines


def test_the_gradients_of_a_sum_are_each_ranks_own(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "harder = a + torch.autograd.grad(brain(a).sum(), a)[0]")
    assert not any("autograd" in line for line in lines)


@pytest.mark.parametrize(
    "made",
    [
        "shift = torch.zeros(4, requires_grad=True)",
        "shift = torch.zeros(4)\nshift.requires_grad = True",
        "shift = torch.zeros(4).requires_grad_()",
    ],
)
def test_the_gradient_of_a_tensor_that_no_model_holds(tmp_path: Path, made: str) -> None:
    step = "F.cross_entropy(brain(a + shift), b).backward()\n    shift.data -= shift.grad\n"
    step += "    shift.grad.zero_()\n    shift.grad = None\n    harder = a"
    lines = added(tmp_path, HEAD + made + "\n" + LOOP.replace("STEP", step))
    assert "shift.data -= dd.averaged(shift.grad)" in lines
    assert not any("zero_" in line or "None" in line for line in lines)
    changed = LOOP.replace("STEP", step.replace("shift.grad.zero_()", "shift.grad.mul_(0.5)"))
    with pytest.raises(Refusal, match="the gradient of a tensor that no model holds"):
        convert_text(tmp_path, HEAD + made + "\n" + changed)


def test_autograd_gives_the_gradient_of_a_tensor_that_no_model_holds(tmp_path: Path) -> None:
    made = "shift = torch.zeros(4, requires_grad=True)\n"
    step = "cost = F.cross_entropy(brain(a + shift), b)\n    harder = a\n"
    step += "    shift.data -= torch.autograd.grad(cost, shift, GIVEN)[0]"
    plain = step.replace(", GIVEN", "")
    lines = added(tmp_path, HEAD + made + LOOP.replace("STEP", plain))
    assert "cost = dd.mean(F.cross_entropy(brain(a + shift), b))" in lines
    assert "shift.data -= dd.averaged(torch.autograd.grad(cost, shift))[0]" in lines
    with pytest.raises(Refusal, match="the gradient of a tensor that no model holds"):
        convert_text(tmp_path, HEAD + made + LOOP.replace("STEP", step.replace("GIVEN", "None")))


def test_a_gradient_that_may_be_of_rows_or_not_is_refused(tmp_path: Path) -> None:
    made = "shift = torch.zeros(4, requires_grad=True)\ndef slope(x):\n    return x.grad\n"
    made += "x = shift.requires_grad_()\n"
    step = "(brain(a + shift).sum() + cost).backward()\n    shift.data -= slope(shift)\n"
    text = HEAD + made + LOOP.replace("STEP", step + "    harder = a + slope(a)")
    text = text.replace("return x.grad", "x.requires_grad_()\n    return x.grad")
    with pytest.raises(Refusal, match="the gradient of a tensor that no model holds"):
        convert_text(tmp_path, text)


FIELD = """\
at = torch.linspace(0, 1, 30).view(-1, 1).requires_grad_()
field = nn.Linear(1, 1)
rule = torch.optim.SGD(field.parameters(), lr=0.1)
for i in range(9):
    rule.zero_grad()
    height = field(torch.cat([at * 1], dim=1))
    ones = torch.ones_like(height)
    slope = torch.autograd.grad(height, at, ones, create_graph=True)[0]
    penalty = ((height + slope) ** 2).mean()
    penalty.backward()
    rule.step()
"""


def test_what_a_gradient_is_taken_of_is_split_like_what_it_is_taken_from(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + FIELD)
    assert "at = dd.shard_batch(torch.linspace(0, 1, 30).view(-1, 1).requires_grad_())" in lines
    assert not any("torch.cat" in line for line in lines)


def test_a_gradient_that_is_normalised_in_place(tmp_path: Path) -> None:
    step = "cost.backward()\n    a.grad.div_(a.grad.norm(dim=1, keepdim=True))\n"
    lines = lines_of(tmp_path, step + "    harder = a + a.grad")
    assert not any("grad" in line for line in lines)


def test_a_gradient_that_is_changed_in_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="a change in place of the samples' gradient"):
        lines_of(tmp_path, "cost.backward()\n    a.grad.mul_(0.1)\n    harder = a + a.grad")


def test_a_hook_on_the_gradient_of_samples_gets_that_of_all_ranks(tmp_path: Path) -> None:
    text = HEAD.replace("brain = nn.Linear(4, 3)", HOOKED)
    lines = added(tmp_path, text + LOOP.replace("STEP", "harder = a"))
    assert "y.register_hook(dd.batch_gradient_hook(self.rate))" in lines


HOOKED = """\
class Watched(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.ranks = nn.Linear(4, 3), 0

    def forward(self, x):
        y = self.inner(x)
        y.register_hook(self.rate)
        return y

    def rate(self, grad):
        self.ranks = self.ranks + grad.abs().mean(0)


brain = Watched()
"""


OWN_BACKWARD = """\
class Nearest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, places):
        at = torch.cdist(x, places).argmin(1)
        ctx.save_for_backward(at)
        ctx.count = len(places)
        return places[at]

    @staticmethod
    def backward(ctx, grad):
        (at,) = ctx.saved_tensors
        hot = F.one_hot(at, ctx.count).type_as(grad)
        GRADIENT


class Places(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.randn(5, 4))
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(Nearest.apply(x, self.places))


brain = Places()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    "gradient",
    [
        "return grad, hot.t() @ grad",
        "return grad / grad.sum(1, keepdim=True), hot.t() @ (grad / ctx.count)",
        "return grad, (hot.t() @ grad) + grad.sum(0)",
    ],
)
def test_a_backward_that_adds_up_over_the_samples(tmp_path: Path, gradient: str) -> None:
    text = HEAD + OWN_BACKWARD.replace("GRADIENT", gradient) + STEP
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in added(tmp_path, text)


LOOSE = HEAD.replace("batch_size=6", "batch_size=size").replace("\n\n", "\n\nsize = 6\n", 1)
LOOSE += """\
shift = torch.zeros(size, 4, requires_grad=True)
for a, b in feed:
    penalty = F.cross_entropy(brain(a + shift[: len(a)]), b)
    penalty.backward()
    shift.data += shift.grad.sign()
    rule.step()
"""


def test_a_tensor_as_large_as_a_batch_has_gradients_of_its_own(tmp_path: Path) -> None:
    lines = added(tmp_path, LOOSE)
    assert "shift.data += dd.averaged(shift.grad).sign()" in lines
    assert "dd.split(shift[: dd.global_batch_size(a)])" in " ".join(lines)


def test_the_first_rows_of_a_tensor_as_large_as_a_batch_are_a_ranks(tmp_path: Path) -> None:
    plain = LOOSE.replace(", requires_grad=True", "").replace(
        "    shift.data += shift", "    print(shift"
    )
    lines = added(tmp_path, plain.replace("grad.sign()", "sum())"))
    assert "dd.split(shift[: dd.global_batch_size(a)])" in " ".join(lines)


@pytest.mark.parametrize(
    "gradient",
    [
        "return grad, places.mean(0) * (hot.t() @ grad)",
        "return grad * hot.max(1, keepdim=True)[0], places.norm() * (hot.t() @ grad)",
    ],
)
def test_a_backward_that_averages_over_parameters(tmp_path: Path, gradient: str) -> None:
    own = OWN_BACKWARD.replace("save_for_backward(at)", "save_for_backward(at, places)")
    own = own.replace("(at,) = ctx", "at, places = ctx").replace("GRADIENT", gradient)
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in added(tmp_path, HEAD + own + STEP)


HOOKS = "for p in brain.parameters():\n    p.{method}(lambda g: g.clamp(-1, 1))\n"


@pytest.mark.parametrize("place", ["", "brain.weight.register_hook(print)\n"])
def test_a_hook_on_a_parameter_gets_the_gradient_of_the_global_batch(
    tmp_path: Path, place: str
) -> None:
    lines = added(tmp_path, HEAD + HOOKS.format(method="register_hook") + place + STEP)
    assert "p.register_hook(dd.gradient_hook(lambda g: g.clamp(-1, 1)))" in lines
    assert ("brain.weight.register_hook(dd.gradient_hook(print))" in lines) is bool(place)


def test_a_hook_that_gets_a_parameter_before_the_average_is_refused(tmp_path: Path) -> None:
    text = HEAD + HOOKS.format(method="register_post_accumulate_grad_hook") + STEP
    with pytest.raises(Refusal, match="before its gradient is averaged"):
        added(tmp_path, text)


ATTACK = """\
def harder(a, b):
    a = a.detach().requires_grad_()
    with torch.enable_grad():
        cost = F.cross_entropy(brain(a), b)
    return a + torch.sign(torch.autograd.grad(cost, [a]GIVEN)[0])


"""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("", "cost, [a], grad_outputs=cost.new_tensor(1 / dd.world_size())"),
        (", torch.ones(())", "cost / dd.world_size(), [a], torch.ones(())"),
    ],
)
def test_no_graph_is_needed_for_a_gradient_of_samples_under_no_grad(
    tmp_path: Path, given: str, wanted: str
) -> None:
    test = (
        "with torch.no_grad():\n    for a, b in check:\n        print(brain(harder(a, b)).sum())\n"
    )
    lines = added(tmp_path, HEAD + ATTACK.replace("GIVEN", given) + STEP + test)
    assert f"return a + torch.sign(torch.autograd.grad({wanted})[0])" in lines


def test_gradients_at_points_that_all_ranks_hold_need_all_of_what_is_computed(
    tmp_path: Path,
) -> None:
    points = "points = torch.rand(5, 4).requires_grad_()\n"
    beside = "    u = brain(points)\n    slope = torch.autograd.grad(u.sum(), points)[0]\n"
    text = HEAD + points + STEP.replace("    penalty.b", f"{beside}    penalty.b")
    assert "u = dd.spread(brain, whole=True)(points)" in added(tmp_path, text)
    plain = text.replace("torch.autograd.grad(u.sum(), points)[0]", "u.mean()")
    assert "u = dd.spread(brain)(points)" in added(tmp_path, plain)
