"""What the first line of a conversion's summary says of work that ranks do not share."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert.output import report
from tests.convert.examples import HEAD, STEP, convert_text

ONE_BY_ONE = "for row in features:\n    print(brain(row).argmax().item())\n"


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("", ""),
        (ONE_BY_ONE, ""),  # as much is shared
        (ONE_BY_ONE * 2, "; 2 of 3 calls of models work on the same samples on every rank"),
        ("print(brain(features[:1]))\n" * 2, ""),  # once
        ("for a, b in check:\n    print((brain(a).argmax(1) == b).sum().item())\n" * 2, ""),
        ("for i in range(9):\n    print(F.cross_entropy(features, labels))\n" * 2, ""),
    ],
)
def test_it_says_where_most_of_the_work_is_not_shared(
    tmp_path: Path, after: str, said: str
) -> None:
    conversion = convert_text(tmp_path, HEAD + STEP + after)
    first = report(conversion, None).splitlines()[0]
    assert first.partition(" changes")[2].partition(" (")[0] == said
