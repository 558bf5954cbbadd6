"""Scripts that only seem to train are not called equivalent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ddpify.verify import Kind, Verdict, What, render

Mutant = Callable[..., Verdict]

MAIN = 'if __name__ == "__main__":\n    main()\n'
BASE = """
import os
base = os.path.dirname(os.path.abspath(__file__))
while not os.path.basename(base).startswith("ddpify-verify-"):
    base = os.path.dirname(base)
"""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (BASE + "open(base + '/record1/rank0.jsonl').read()", "reads another run"),
        (BASE + "open(base + '/record2/rank0.jsonl', 'a')", "writes to another run"),
        ("from ddpify.verify.inside import recorder", "imports what judges it"),
        ("import ddpify; ddpify.verify.inside", "has no attribute 'verify'"),
    ],
)
def test_the_judge_is_out_of_reach(mutant: Mutant, code: str, message: str) -> None:
    verdict = mutant((MAIN, code + "\n" + MAIN))
    assert verdict.kind is Kind.COULD_NOT_RUN, render(verdict)
    assert message in " ".join(render(verdict).split())


def test_steps_behind_the_recorders_back_are_missing(mutant: Mutant) -> None:
    code = "import torch.optim.optimizer as o\no._global_optimizer_post_hooks.clear()\n"
    verdict = mutant((MAIN, code + MAIN))
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert verdict.comparisons[0].differences[0].what in (What.STEPS, What.PARAMETER)


def test_a_replaced_step_makes_no_step(mutant: Mutant) -> None:
    code = "torch.optim.Adam.step = lambda self, closure=None: None\n"
    verdict = mutant((MAIN, code + MAIN))
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert verdict.comparisons[0].differences[0].what in (What.STEPS, What.PARAMETER)


def test_results_of_an_earlier_run_are_no_training(mutant: Mutant) -> None:
    """The files of an earlier run lie in the folder; the script hands them in."""
    code = "open('model.pt', 'wb').write(b'as if trained')\nprint('epoch 0 loss 1.10')\n"
    verdict = mutant((MAIN, code))
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)


def test_cached_parameters_are_no_training(mutant: Mutant) -> None:
    """After each step the parameters are those of a cached run; the gradients are nothing's."""
    cached = (
        "            kept = [p.detach().clone() for p in model.parameters()]\n"
        "            optimizer.step()\n"
        "            [p.data.copy_(k) for p, k in zip(model.parameters(), kept)]\n"
    )
    edits = [("(loss * world / count).backward()", "(loss * 0).backward()")]
    verdict = mutant(*edits, ("            optimizer.step()\n", cached))
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)


def test_every_rank_trains_on_everything(mutant: Mutant) -> None:
    """The parameters are right, and nothing is shared out."""
    verdict = mutant(
        ("x[rank::world], y[rank::world]", "x, y"),
        ("(loss * world / count).backward()", "(loss / count).backward()"),
    )
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert What.WORK in [item.what for item in verdict.comparisons[0].differences]


def test_a_model_of_its_own_beside_the_shown_one(mutant: Mutant) -> None:
    """What is saved and printed was never trained on this data."""
    verdict = mutant(("criterion(model(x), y)", "criterion(model(torch.ones_like(x)), y)"))
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
    assert verdict.comparisons[0].same_data is False
