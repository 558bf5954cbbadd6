"""From the evidence of one step to its suspected cause, without running anything."""

from __future__ import annotations

from dataclasses import replace

from ddpify.verify.compare import causes, suspects
from ddpify.verify.compare.evidence import Departure, Evidence

OFF = [Departure(0, 1.0, 1e-9, 0)]
STEP = Evidence(
    world_size=2,
    names=["weight"],
    batch_norm=False,
    rows=None,
    loss=None,
    wrapped=True,
    backwards=[1, 1],
    synchronised=[False, True],
    roots=[["DivBackward0"]] * 3,
    clips=[[[0.2, 1]]] * 3,
    options=[[{}]] * 3,
)
APART = replace(STEP, gradients_apart=OFF)


def test_no_sync_at_the_last_micro_batch() -> None:
    wrong = replace(APART, synchronised=[True, False])
    assert suspects.gradient(wrong) is causes.NO_SYNC
    assert suspects.gradient(APART) is not causes.NO_SYNC


def test_clipped_before_the_gradients_are_averaged_by_hand() -> None:
    by_hand = replace(APART, wrapped=False)
    assert suspects.gradient(by_hand) is causes.CLIPPED_EARLY
    assert suspects.gradient(replace(by_hand, parameters_apart=OFF)) is causes.UNWRAPPED
    unused = replace(APART, backwards=[0, 0])
    assert suspects.gradient(unused) is causes.CLIPPED_EARLY
    assert suspects.gradient(replace(unused, parameters_apart=OFF)) is causes.STALE


def test_some_gradients_that_differ() -> None:
    some = replace(APART, names=["weight", "bias"], places=["averaged"] * 2, backwards=[1])
    assert suspects.gradient(some).rules == causes.MOVED.rules
    changed = suspects.gradient(replace(some, ratios=[1.0, 1.5]))
    assert changed.text.startswith(causes.CHANGED_GRADIENT.text)
    past = replace(some, backwards=[0], module_read=True)
    assert suspects.gradient(past) is causes.BYPASS


def test_zero_grad_left_out() -> None:
    cleared, kept = {"Optimizer.zero_grad": 1}, {"Optimizer.zero_grad": 0}
    assert suspects.gradient(replace(STEP, calls=[cleared, kept, kept])) is causes.NOT_ZEROED
    assert suspects.gradient(replace(STEP, calls=[cleared] * 3)) is causes.WEIGHTS


def test_accumulation_that_is_not_divided() -> None:
    doubled = replace(STEP, ratios=[2.0])
    assert suspects.gradient(replace(doubled, loss_ratio=2.0)).rules == causes.FACTOR.rules
    summed = suspects.gradient(replace(doubled, loss_ratio=1.0))
    assert summed.rules == causes.SUMMED_GRADIENT.rules


def test_clipped_to_another_limit() -> None:
    assert (
        suspects.parameter(replace(STEP, clips=[[[0.2, 1]], [[0.1, 1]], [[0.1, 1]]]))
        is causes.CLIPPED
    )
    assert suspects.parameter(STEP) is causes.OPTIMIZER


def test_an_option_is_named_with_its_parameter() -> None:
    own, other = [{"weight_decay": 0.1}], [{"weight_decay": 0.0}]
    found = suspects.parameter(replace(STEP, options=[own, other, other]))
    assert "weight_decay of weight is 0, not 0.1" in found.text


def test_a_scheduler_that_steps_more_often() -> None:
    once, twice = {"LRScheduler.step": 1}, {"LRScheduler.step": 2}
    more = replace(STEP, rates=[[0.1], [0.2], [0.2]], calls=[once, twice, twice])
    assert suspects.learning_rate(more) is causes.SCHEDULED
    assert suspects.learning_rate(replace(more, calls=[once] * 3)) is causes.OTHER_RATE


def test_gradients_that_some_ranks_change_after_the_backward() -> None:
    some = replace(APART, changed=[1, 1, 0])
    assert suspects.gradient(some) is causes.CHANGED_BY_SOME
    early = replace(STEP, wrapped=False, changed=[1, 1, 1])
    assert suspects.gradient(replace(early, changed_early=True)) is causes.CLIPPED_EARLY
    assert suspects.gradient(early) is causes.WEIGHTS


def test_gradients_that_all_ranks_change_otherwise() -> None:
    assert suspects.gradient(replace(STEP, changed=[0, 1, 1])) is causes.CHANGED_OTHERWISE
    alike = replace(STEP, changed=[1, 1, 1], loss="mean")
    assert suspects.gradient(replace(alike, even=True)) is causes.CHANGED_OTHERWISE
    assert suspects.gradient(alike) is causes.WEIGHTS


def test_what_a_loss_is_computed_from() -> None:
    assert suspects.gradient(replace(STEP, targets="other targets")).text == "other targets"
    kept = replace(STEP, targets="other targets", kept="center")
    assert suspects.gradient(kept).text.startswith("center, which outlives")
    assert suspects.gradient(replace(STEP, same_pairs=True)) is causes.COMPOSED
