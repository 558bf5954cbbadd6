"""--strategy: how models are wrapped, and what is refused then."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from ddpify.errors import DdpifyError
from tests.conftest import Ddpify
from tests.convert.examples import HEAD, STEP, added, convert_text


def test_one_argument_differs(tmp_path: Path) -> None:
    whole = added(tmp_path, HEAD + STEP)
    sharded = added(tmp_path, HEAD + STEP, strategy="fsdp")
    assert [line for line in sharded if line not in whole] == [
        'brain = dd.wrap(nn.Linear(4, 3), strategy="fsdp")'
    ]
    assert len(sharded) == len(whole)


def test_options_are_arguments(tmp_path: Path) -> None:
    lines = added(
        tmp_path,
        HEAD + STEP,
        strategy="fsdp",
        mixed_precision="bfloat16",
        activation_checkpointing=True,
        sync_batchnorm=False,
    )
    given = ('strategy="fsdp"', 'mixed_precision="bfloat16"', "activation_checkpointing=True")
    assert [line for line in lines if line.startswith(given)] == [f"{one}," for one in given]


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [
        ("SGD(brain.parameters(), lr=0.1)", ", optimizer_states=0"),
        ("SGD(brain.parameters(), 0.1, 0.9)", ", optimizer_states=1"),
        ("SGD(brain.parameters(), lr=0.1, momentum=0.9)", ", optimizer_states=1"),
        ("AdamW(brain.parameters())", ""),
    ],
)
def test_auto_is_told_of_the_optimizer(tmp_path: Path, optimizer: str, states: str) -> None:
    text = HEAD.replace("SGD(brain.parameters(), lr=0.1)", optimizer) + STEP
    wrapped = f'brain = dd.wrap(nn.Linear(4, 3), strategy="auto"{states})'
    assert wrapped in added(tmp_path, text, strategy="auto")


def test_a_model_is_sharded_before_its_optimizer_is_made(tmp_path: Path) -> None:
    late = "brain.weight.requires_grad_(True)\nfor a, b in feed:"
    text = (HEAD + STEP).replace("for a, b in feed:", late, 1)
    lines = added(tmp_path, text, strategy="fsdp")
    assert 'brain = dd.wrap(nn.Linear(4, 3), strategy="fsdp")' in lines


REFUSED = {
    "LBFGS": (
        HEAD.replace("SGD(brain.parameters(), lr=0.1)", "LBFGS(brain.parameters())") + STEP,
        10,
        "LBFGS cannot step a sharded model",
    ),
    "a late move": (HEAD + "brain.to('cpu')\n" + STEP, 11, "moved after an optimizer was made"),
    "a second derivative": (
        HEAD
        + """\
for a, b in feed:
    a.requires_grad_(True)
    out = brain(a)
    slope = torch.autograd.grad(out.sum(), a, create_graph=True)[0]
    (F.cross_entropy(out, b) + slope.pow(2).mean()).backward()
    rule.step()
""",
        14,
        "differentiates a second time",
    ),
    "a file of rank 0": (
        HEAD + STEP + 'open("norm.txt", "w").write(str(brain.weight.norm().item()))\n',
        16,
        "rank 0 writes here alone",
    ),
    "a library's own files": (
        HEAD + STEP + "brain.save_pretrained('x')\n",
        16,
        "rank 0 writes here alone",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_sharding_does_not_allow_is_refused(tmp_path: Path, name: str) -> None:
    text, line, message = REFUSED[name]
    with pytest.raises(DdpifyError, match=message) as refusal:
        convert_text(tmp_path, dedent(text), strategy="fsdp")
    assert refusal.value.line == line
    assert refusal.value.remedy


@pytest.mark.parametrize(
    "options",
    [("--strategy", "zero"), ("--mixed-precision", "float16"), ("--mixed-precision", "int8")],
)
def test_wrong_options_are_usage_errors(
    ddpify: Ddpify, tmp_path: Path, options: tuple[str, str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD + STEP)
    done = ddpify("convert", script, "--diff", *options)
    assert done.code == 2
    assert "use " in done.stderr or "is not one of" in done.stderr
