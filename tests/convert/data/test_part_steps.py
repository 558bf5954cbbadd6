"""Loops over what a loader's batch holds, with a step of the training in each round."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal, conversion
from ddpify.planning.conversion_options import Options
from ddpify.planning.plan import Plan
from ddpify.planning.solver import make_plan
from ddpify.understanding.project import Project
from tests.convert.examples import HEAD, added, convert_text

PACKED = """\
def pack(samples):
    return [torch.stack(samples[i : i + 4]) for i in range(0, len(samples), 4)]


many = DataLoader(list(features), batch_size=12COLLATE)
for HEADER:
    for part in parts:
        penalty = brain(part).pow(2).mean()
        rule.zero_grad()
        penalty.backward()
        rule.step()
"""


@pytest.mark.parametrize("collate", ["", ", collate_fn=pack"])
@pytest.mark.parametrize("header", ["parts in many", "i, parts in enumerate(many)"])
def test_a_step_for_each_part_of_a_batch_is_refused(
    tmp_path: Path, collate: str, header: str
) -> None:
    text = HEAD + PACKED.replace("COLLATE", collate).replace("HEADER", header)
    with pytest.raises(Refusal, match="each round of this loop is a step of its own"):
        convert_text(tmp_path, text)


def test_what_no_other_file_would_change_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Project] = []

    def noted(project: Project, options: Options) -> Plan:
        planned.append(project)
        return make_plan(project, options)

    monkeypatch.setattr(conversion, "make_plan", noted)
    (tmp_path / "plain.py").write_text("SEED = 1\n")
    text = HEAD + PACKED.replace("COLLATE", "").replace("HEADER", "parts in many")
    with pytest.raises(Refusal, match="is a step of its own"):
        convert_text(tmp_path, "import plain\n" + text)
    assert len(planned) == 1


NAMED = """\
for a, b in feed:
    for part in (a, a + 1):
        penalty = F.cross_entropy(brain(part), b)
        rule.zero_grad()
        penalty.backward()
        rule.step()
"""


def test_a_step_for_each_of_several_tensors_is_one_on_all_rows(tmp_path: Path) -> None:
    assert "penalty = dd.mean(F.cross_entropy(brain(part), b))" in added(tmp_path, HEAD + NAMED)
