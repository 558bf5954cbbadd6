"""Parameters by name, windows by micro-batches, models and tensors beside the trained model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from ddpify.verify import Kind, What
from ddpify.verify.compare import causes, differences, models, records, suspects, windows
from ddpify.verify.compare.evidence import Departure
from ddpify.verify.compare.records import Drawn, Mark, OptimizerStart, Step, Totals
from ddpify.verify.inside.world import World
from ddpify.verify.judge import noise
from ddpify.verify.verdict import Cause, Comparison
from tests.verify.test_suspects import STEP as EVIDENCE

ONE: Mark = (1.0, 0.5)
TWO: Mark = (2.0, 0.5)
START = OptimizerStart(0, "SGD", ["a", "b"], [ONE, TWO], False, [], [], False, [{}, {"decay": 1}])
STEP = Step(
    0, [0.1], None, [ONE, TWO], [ONE, None], [[1.0]] * 2, [[1.0, 2.0], [3.0, 4.0]], 1, [], 0, [],
    [1, 1], [True, True], [], [], {}, "train.py:3", [], {}, False,
)  # fmt: skip


def test_parameters_of_other_groups_are_matched_by_name() -> None:
    other = replace(START, names=["b", "a"], params=[TWO, ONE], options=[{"decay": 2}, {}])
    order = records.order_of(START, other)
    assert order == [1, 0]
    moved = records.in_order(other, order)
    assert (moved.names, moved.params) == (START.names, START.params)
    assert moved.options == [{}, {"decay": 2}]
    assert records.in_order(STEP, order).grads == [None, ONE]


def test_rates_of_groups_that_are_divided_otherwise() -> None:
    for others, counts in (([0.1], False), ([0.1, 0.1], False), ([0.1, 0.2], True), ([0.2], True)):
        found = differences.all_of(1, STEP, [STEP], replace(EVIDENCE, rates=[[0.1, 0.1], others]))
        assert (found != []) is counts
    assert not differences.all_of(1, STEP, [STEP], replace(EVIDENCE, rates=[[0.1], [0.1, 0.1]]))


def test_gradients_that_are_put_together_by_hand_are_no_work() -> None:
    parameter, rows = nn.Parameter(torch.ones(2, 3)), torch.ones(4, 3)
    with World(cuda=False, noise=0.0) as world:
        rows[0].repeat(2).view_as(parameter)
        assert world.work == 0
        nn.functional.linear(rows, parameter)
    assert world.work == rows.numel()


def test_names_that_are_not_the_same_tell_no_order() -> None:
    assert records.order_of(START, replace(START, names=["a", "c"])) is None
    assert records.order_of(START, replace(START, names=["a", "a"])) is None


def _record(folder: Path, name: str, windows_: list[int]) -> Path:
    path = folder / name
    events = [
        {"event": "step", **vars(replace(STEP, losses=[[1.0]] * count))} for count in windows_
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_a_step_after_other_micro_batches(tmp_path: Path) -> None:
    paths = [_record(tmp_path, "own", [2, 2]), _record(tmp_path, "rank", [3, 1])]
    late = replace(STEP, losses=[[1.0]] * 3, rows=[[1.0, 2.0], [3.0, 4.0], [5.0]])
    found = windows.other(1, STEP, [late], paths)
    assert found is not None and found.what is What.STEPS
    assert "after micro-batch 3, in the original after micro-batch 2" in found.text
    assert found.cause is causes.EARLY_MICRO_BATCHES
    local = windows.other(1, STEP, [late, STEP], [*paths, paths[0]])
    assert local is not None and local.cause is causes.RANK_LOCAL_STEPS


def test_ranks_that_share_out_the_micro_batches_are_right(tmp_path: Path) -> None:
    halves = [replace(STEP, losses=[[1.0]], rows=[rows]) for rows in STEP.rows]
    assert windows.other(1, STEP, halves, []) is None


def test_a_model_that_no_optimizer_holds() -> None:
    own = replace(STEP, others={"average.weight": ONE})
    other = replace(STEP, others={"average.weight": TWO})
    found = models.outside(1, own, [other, own], 1e-9)
    assert found is not None and found.cause is causes.OUTSIDE
    assert models.outside(1, own, [own, other], 1e-9) is None
    assert models.apart([own, other], 1e-9) == "average.weight"
    assert models.apart([own, own], 1e-9) == ""


def test_settings_and_modes_of_layers() -> None:
    own = replace(START, settings={"norm": {"momentum": 0.1, "eps": 1e-5}})
    other = replace(START, settings={"norm": {"momentum": 0.2, "eps": 1e-5}})
    text = models.other_setting(own, other)
    assert text == "momentum of layer norm is 0.2, not 0.1"
    assert models.other_setting(own, own) == ""
    assert models.modes(STEP, [replace(STEP, evaluating=["norm"])]) == (False, True)
    cause = suspects.gradient(replace(EVIDENCE, settings=text))
    assert text in cause.text
    assert suspects.gradient(replace(EVIDENCE, modes=(False, True))) is causes.MODE
    assert suspects.buffer(EVIDENCE) is causes.BUFFER


def test_a_tensor_that_outlives_the_steps() -> None:
    own, other = replace(STEP, kept={"center": ONE}), replace(STEP, kept={"center": TWO})
    assert models.kept(own, [own, other], 1e-9) == "center"
    cause = suspects.gradient(replace(EVIDENCE, kept="center"))
    assert cause.text.startswith("center, which outlives the steps")


def test_parameters_that_are_frozen_on_the_ranks() -> None:
    frozen = replace(EVIDENCE, gradients_off=[Departure(0, 1.0, 1e-9, 0)], places=["frozen"])
    assert "frozen that the original trains: weight" in suspects.gradient(frozen).text
    assert suspects.gradient(replace(frozen, places=["averaged"])).rules[0] == "DDP408"


def test_another_optimizer() -> None:
    cause = suspects.parameter(replace(EVIDENCE, types=["Adam", "SGD", "SGD"]))
    assert cause.text == "the optimizer is SGD, not Adam"


def test_noise_of_equal_seeds_on_all_ranks() -> None:
    def causes_of(*states: int, rows: int = 2, of: int = 4) -> list[Cause | None]:
        comparison = Comparison(len(states), Kind.EQUIVALENT)
        place = (0, 0, 1)
        found = [Totals(draws={place: Drawn((rows, 5), state)}) for state in states]
        noise.judge(comparison, Totals(draws={place: Drawn((of, 5), 3, of)}), found)
        return [item.cause for item in comparison.differences]

    assert causes_of(3, 3) == causes_of(3, 4, 4) == [causes.EQUAL_NOISE]
    assert causes_of(3, 4) == causes_of(3, 3, rows=4) == []
    assert causes_of(3, 4, rows=4) == [causes.OWN_NOISE]
    assert causes_of(3, 4, rows=1, of=1) == []
