"""A word that something with a rank in it is compared with: no number makes it that word."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

ALIKE = {
    "the rank, or a word": "place = rank if torch.cuda.is_available() else 'cpu'\n",
    "set in a branch": (
        "if torch.cuda.is_available():\n    place = rank\nelse:\n    place = 'cpu'\n"
    ),
    "a text with the rank": "place = f'cuda:{rank}'\n",
    "a sum of texts": "place = 'cuda:' + str(rank)\n",
    "by another name": "own = local_rank\nplace = own\n",
}
CHOSEN = {
    "by the rank": "place = 'cuda' if rank == 0 else 'cpu'\n",
    "in a branch of the rank": (
        "place = 'cpu'\nif rank == 0:\n    place = 'cuda'\n    place = place + str(rank)\n"
    ),
    "by a function": (
        "def pick(number):\n    return 'cuda' if number == 0 else 'cpu'\n\nplace = pick(rank)\n"
    ),
    "out of a dictionary": "place = {0: 'cuda', 1: 'cpu'}[rank]\n",
}
MEETING = "if place != 'cpu' and world_size > 1:\n    dist.barrier()\n"


@pytest.mark.parametrize("name", ["by the rank", "by a function", "out of a dictionary"])
def test_a_word_that_the_rank_chooses(lint_text: Lint, name: str) -> None:
    found = lint_text(SETUPS["distributed"] + CHOSEN[name] + MEETING, select=("DDP401",))
    assert [one.code for one in found] == ["DDP401"]


@pytest.mark.parametrize("name", ALIKE)
def test_a_word_that_no_rank_is(lint_text: Lint, name: str) -> None:
    assert not lint_text(SETUPS["distributed"] + ALIKE[name] + MEETING, select=("DDP401",))


@pytest.mark.parametrize("test", ["place == '0'", "place == 'cuda:0'", "place == 0"])
def test_a_number_that_one_rank_is(lint_text: Lint, test: str) -> None:
    text = f"place = rank\nif {test}:\n    dist.barrier()\n"
    assert lint_text(SETUPS["distributed"] + text, select=("DDP401",))
