"""Gradients that are exchanged in the last micro-batch of each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, added, convert_text
from tests.training_runs import TrainingRuns, assert_same_training

STEPS = "rule.step(); rule.zero_grad()"

CONDITIONS = {
    "enumerate": (
        "for i, (a, b) in enumerate(feed):",
        "if (i + 1) % 2 == 0:",
        "dd.sync_gradients((i + 1) % 2 == 0)",
    ),
    "the epoch's end": (
        "for i, (a, b) in enumerate(feed):",
        "if i % 2 == 1 or i == len(feed) - 1:",
        "dd.sync_gradients(i % 2 == 1 or i == len(feed) - 1)",
    ),
    "a counter that goes on": (
        "seen = 0\nfor a, b in feed:",
        "seen += 1\n    if seen % 2 == 0:",
        "dd.sync_gradients((seen + 1) % 2 == 0)",
    ),
    "a name for the condition": (
        "for i, (a, b) in enumerate(feed):",
        "last = (i + 1) % 2 == 0\n    if last:",
        "dd.sync_gradients(((i + 1) % 2 == 0))",
    ),
    "an early exit": (
        "for i, (a, b) in enumerate(feed):",
        "if (i + 1) % 2 != 0:\n        continue\n    if True:",
        "dd.sync_gradients((i + 1) % 2 == 0)",
    ),
    "a while loop": (
        "seen, rows = 0, iter(feed)\nwhile seen < 4:\n    a, b = next(rows)\n    seen += 1",
        "pass\n    if seen % 2 == 0:",
        "dd.sync_gradients(seen % 2 == 0)",
    ),
}

FORWARD = "    penalty = F.cross_entropy(brain(a), b) / 2\n    penalty.backward()\n"


def script(start: str, condition: str, body: str = FORWARD, then: str = STEPS) -> str:
    """A training with a step under a condition, printed at its end."""
    head = f"torch.manual_seed(2)\nbrain.double()\n{start}\n    a = a.double()\n"
    shown = "print([float(p.sum()) for p in brain.parameters()])\n"
    return f"{HEAD}{head}{body}    {condition}\n        {then}\n{shown}"


@pytest.mark.parametrize("form", CONDITIONS)
def test_the_condition_of_a_step_is_asked_before_the_forward(tmp_path: Path, form: str) -> None:
    start, condition, wanted = CONDITIONS[form]
    assert wanted in added(tmp_path, script(start, condition))


@pytest.mark.parametrize("form", CONDITIONS)
def test_training_is_the_same(tmp_path: Path, runs: TrainingRuns, form: str) -> None:
    start, condition, _ = CONDITIONS[form]
    conversion = convert_text(tmp_path, script(start, condition))
    converted = tmp_path / "converted.py"
    converted.write_bytes(conversion.data)
    assert_same_training(runs.run(tmp_path / "script.py"), runs.run(converted, 2))


NESTED = """\
rows = iter(feed)
for step in range(2):
    for _ in range(2):
        a, b = next(rows)
        (F.cross_entropy(brain(a), b) / 2).backward()
    nn.utils.clip_grad_norm_(brain.parameters(), 1.0)
    rule.step()
    rule.zero_grad()
"""


def test_a_loop_over_the_micro_batches(tmp_path: Path) -> None:
    assert "dd.sync_gradients(_ == 2 - 1)" in added(tmp_path, HEAD + NESTED)


HELPER = """\
def learn(i, a, b):
    (F.cross_entropy(brain(a), b) / 2).backward()
    if (i + 1) % 2 == 0:
        update()


def update():
    nn.utils.clip_grad_norm_(brain.parameters(), 1.0)
    rule.step()
    rule.zero_grad()


for i, (a, b) in enumerate(feed):
    learn(i, a, b)
"""


def test_functions_for_the_step(tmp_path: Path) -> None:
    assert "dd.sync_gradients((i + 1) % 2 == 0)" in added(tmp_path, HEAD + HELPER)


LOOP = "for i, (a, b) in enumerate(feed):"
EVERY_OTHER = "if (i + 1) % 2 == 0:"


@pytest.mark.parametrize(
    "text",
    [
        script(LOOP, "if True:"),
        script(
            LOOP, EVERY_OTHER, FORWARD + "    nn.utils.clip_grad_norm_(brain.parameters(), 1.0)\n"
        ),
        script(LOOP, EVERY_OTHER, FORWARD + "    print(brain.weight.grad.norm())\n"),
        script(LOOP, EVERY_OTHER, FORWARD + "    print(getattr(brain.weight, 'grad').norm())\n"),
        script(
            LOOP, EVERY_OTHER, FORWARD.replace("    penalty.b", "    if i != 3:\n        penalty.b")
        ),
        script(LOOP, EVERY_OTHER, FORWARD + "    i = int(torch.rand(1) * 9)\n"),
        script(LOOP, EVERY_OTHER, FORWARD + "    if i == 3:\n        rule.step()\n"),
        script(LOOP, "if penalty.item() < 2:"),
    ],
)
def test_gradients_that_are_read_in_each_micro_batch_are_exchanged_there(
    tmp_path: Path, text: str
) -> None:
    assert not any("sync_gradients" in line for line in added(tmp_path, text))


DERIVED = "class Loud(torch.amp.GradScaler):\n    pass\n\n\ngrower = Loud('cpu')\n"
NAMED_ALIKE = "from meters import GradScaler\ngrower = GradScaler()\n"


@pytest.mark.parametrize("call", [DERIVED, "from others import Amp\ngrower = Amp()\n"])
def test_what_gets_the_optimizer_steps(tmp_path: Path, call: str) -> None:
    text = script(f"{call}{LOOP}", EVERY_OTHER, then="grower.step(rule); rule.zero_grad()")
    assert "dd.sync_gradients((i + 1) % 2 == 0)" in added(tmp_path, text)


def test_a_meter_that_is_called_like_a_scaler_does_not_step(tmp_path: Path) -> None:
    body = f"{FORWARD}    grower.step()\n"
    text = script(f"{NAMED_ALIKE}{LOOP}", EVERY_OTHER, body)
    assert "dd.sync_gradients((i + 1) % 2 == 0)" in added(tmp_path, text)


def test_a_step_after_the_last_window(tmp_path: Path, runs: TrainingRuns) -> None:
    text = script(LOOP, EVERY_OTHER).replace("print(", "rule.step()\nprint(")
    conversion = convert_text(tmp_path, text)
    assert b"dd.sync_gradients((i + 1) % 2 == 0)" in conversion.data
    converted = tmp_path / "converted.py"
    converted.write_bytes(conversion.data)
    assert_same_training(runs.run(tmp_path / "script.py"), runs.run(converted, 3))


def test_a_sharded_model_has_no_step_after_the_last_window(tmp_path: Path) -> None:
    text = f"{HEAD}{LOOP}\n{FORWARD}    {EVERY_OTHER}\n        {STEPS}\n"
    assert any("sync_gradients" in line for line in added(tmp_path, text, strategy="fsdp"))
    lines = added(tmp_path, f"{text}rule.step()\n", strategy="fsdp")
    assert not any("sync_gradients" in line for line in lines)
