"""What one call passes into a function does not come out of the function's other calls."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

STEPS = """
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
"""
# What makes paths of names, with a call of it.
HELPERS = {
    "a helper": (
        "def path_of(folder, name):\n    return os.path.join(folder, name)\n",
        "path_of('logs', {})",
    ),
    "a helper of a helper": (
        "def ended(name):\n    return name + '.pt'\n\n"
        "def path_of(name):\n    return os.path.join('logs', ended(name))\n",
        "path_of({})",
    ),
    "by keyword": (
        "def path_of(folder='logs', name='x'):\n    return f'{folder}/{name}'\n",
        "path_of(name={})",
    ),
    "by a name in it": (
        "def path_of(name):\n    made = 'logs/' + name\n    made = made + '.pt'\n    return made\n",
        "path_of({})",
    ),
    "one of two results": (
        "def both(a, b):\n    return 'logs/' + a, 'logs/' + b\n",
        "both({}, 'x')[0]",
    ),
    "a lambda": ("path_of = lambda name: 'logs/' + name\n", "path_of({})"),
    "a function that calls itself": (
        "def path_of(name, n=2):\n    if n == 0:\n        return name\n"
        "    return path_of('x' + name, n - 1)\n",
        "path_of({})",
    ),
    "collected arguments": (
        "def path_of(*names):\n    return os.path.join('logs', *names)\n",
        "path_of({})",
    ),
    "collected keywords": (
        "def path_of(**names):\n    return os.path.join('logs', names['a'])\n",
        "path_of(a={})",
    ),
    "a method": (
        "class Paths:\n    def of(self, name):\n        return 'logs/' + name\n\npaths = Paths()\n",
        "paths.of({})",
    ),
    "a list in it": (
        "def path_of(name):\n    parts = ['logs']\n    parts.append(name)\n"
        "    return '/'.join(parts)\n",
        "path_of({})",
    ),
}


def _script(helper: str, call: str, name: str) -> str:
    """A path of the rank and another one that the same helper makes."""
    own = call.format("f'{rank}.txt'")
    return (
        f"{SETUPS['distributed']}\n{helper}\nopen({own}, 'w').write('x')\n"
        f"{STEPS}torch.save(net.state_dict(), {call.format(name)})\n"
    )


@pytest.mark.parametrize("name", HELPERS)
def test_a_rank_in_another_call_makes_no_path_a_ranks_own(lint_text: Lint, name: str) -> None:
    text = _script(*HELPERS[name], "'model'")
    found = lint_text(text, select=("DDP501",))
    assert [one.span.line for one in found] == [len(text.splitlines())]


@pytest.mark.parametrize("name", HELPERS)
def test_a_rank_in_this_call_does(lint_text: Lint, name: str) -> None:
    assert not lint_text(_script(*HELPERS[name], "f'model-{rank}'"), select=("DDP501",))


KEPT = """
class Paths:
    def put(self, name):
        self.name = name

    def path(self):
        return 'logs/' + self.name

paths = Paths()
paths.put(f'{rank}')
"""
AROUND = """
def path_of(name):
    def ended():
        return 'logs/' + name
    return ended()
"""
UNUSED = """
def path_of(name, who):
    print(who)
    return 'logs/' + name
"""


@pytest.mark.parametrize(
    ("helper", "path", "count"),
    [
        (KEPT, "paths.path()", 0),
        (AROUND, "path_of(f'{rank}')", 0),
        (UNUSED, "path_of('a', rank)", 1),
    ],
    ids=["in an object", "in a function around", "of which nothing is made"],
)
def test_what_goes_another_way_than_into_the_result(
    lint_text: Lint, helper: str, path: str, count: int
) -> None:
    text = f"{SETUPS['distributed']}{helper}{STEPS}torch.save(net.state_dict(), {path})\n"
    assert len(lint_text(text, select=("DDP501",))) == count
