"""Rows that are put in a random order and back again, as for shuffled batch normalisation."""

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added

LOOP = STEP.replace("    rule.zero_grad()\n", "    WAYS\n    rule.zero_grad()\n").replace(
    "brain(a)", "brain(a[there])[back]"
)
WAYS = {
    "sorted": ("back = torch.argsort(there)", "dd.split(dd.gather(a)[there])"),
    "written by index": (
        "back = torch.zeros(len(a)).long()\n    back.index_copy_(0, there, torch.arange(len(a)))",
        "dd.gather(torch.zeros(len(a)).long())",
    ),
    "written as items": (
        "back = torch.zeros(len(a)).long()\n    back[there] = torch.arange(len(a))",
        "dd.gather(torch.zeros(len(a)).long())",
    ),
}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("kind", ["", ".long()"])
def test_the_way_back_from_an_order_is_that_of_all_rows(
    tmp_path: Path, name: str, kind: str
) -> None:
    way, expected = WAYS[name]
    ways = f"there = torch.randperm(len(a)){kind}\n    {way}"
    lines = added(tmp_path, HEAD + LOOP.replace("WAYS", ways))
    assert f"there = torch.randperm(dd.global_batch_size(a)){kind}" in lines
    assert any(expected in line for line in lines)
