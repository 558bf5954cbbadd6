"""The interpreter goes over a script until nothing that it has read comes out differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import libcst as cst
import pytest

from ddpify.source import read_source, source_from_bytes
from ddpify.understanding import structure
from ddpify.understanding.facts import Facts
from ddpify.understanding.interpreter import Interpreter
from ddpify.understanding.model_structure import layers
from ddpify.understanding.project import Project
from ddpify.understanding.structure import walk
from ddpify.understanding.values import UNKNOWN, Const, Instance, Tup, Value, join, value

FIXTURES = Path(__file__).parents[1] / "fixtures"
SCRIPTS = sorted(FIXTURES.glob("*/train*.py"))

HEAD = """
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=4)
"""

# Each prints a part of a batch, marked `late`, that is there only from the second round on.
IN_AN_ATTRIBUTE = """
class Log:
    def __init__(self):
        self.last = None
log = Log()
for x, y in loader:
    print(log.last)  # late
    log.last = mse_loss(model(x), y)
"""
IN_A_NAME = """
last = None
for x, y in loader:
    print(last)  # late
    last = mse_loss(model(x), y)
"""
BEHIND_A_BRANCH = """
last = None
for x, y in loader:
    if y is not None:
        shown = last
    print(shown)  # late
    last = mse_loss(model(x), y)
"""
IN_THE_TEST_OF_A_LOOP = """
last, batches = 0, iter(loader)
while last > 1:  # late
    x, y = next(batches)
    last = mse_loss(model(x), y)
"""
IN_A_CLOSURE = """
def main():
    def show():
        print(last)  # late
    last = None
    for x, y in loader:
        show()
        last = mse_loss(model(x), y)
main()
"""
IN_A_GLOBAL = """
last = None
def step(x, y):
    global last
    last = mse_loss(model(x), y)
def show():
    print(last)  # late
for x, y in loader:
    show()
    step(x, y)
"""
OF_A_RECURSION = """
def deepest(x, y, depth):
    if depth == 0:
        return mse_loss(model(x), y)
    found = deepest(x, y, depth)
    print(found)  # late
    return found
for x, y in loader:
    deepest(x, y, depth)
"""
BEFORE_NEXT = """
total, batches = 0.0, iter(loader)
loss = mse_loss(model(torch.zeros(4, 3)), torch.zeros(4, 1))
while True:
    total += loss  # late
    x, y = next(batches)
    loss = mse_loss(model(x), y)
"""
OLDER_THAN_THE_BATCH = """
kept, batches = [], iter(loader)
for x, y in loader:
    loss = mse_loss(model(x), y)
while True:
    kept.append(loss)  # late
    x, y = next(batches)
"""
IN_A_COLLECTION = """
def losses():
    for x, y in loader:
        yield {"loss": mse_loss(model(x), y)}
found = losses()
for x, y in loader:
    last = {}
    for one in found:
        print(last.get("loss"))  # late
        last["loss"] = one["loss"]
"""
OF_THE_ROUND_BEFORE_LAST = """
second, first = None, None
for x, y in loader:
    print(second)  # late
    second = first
    first = mse_loss(model(x), y)
"""
LATE = [
    OF_THE_ROUND_BEFORE_LAST,
    IN_AN_ATTRIBUTE,
    IN_A_NAME,
    BEHIND_A_BRANCH,
    IN_THE_TEST_OF_A_LOOP,
    IN_A_CLOSURE,
]
LATE += [IN_A_COLLECTION, IN_A_GLOBAL, OF_A_RECURSION, BEFORE_NEXT, OLDER_THAN_THE_BATCH]

# Each reads, of what a round before has left, running totals alone: and those to add to them.
A_TOTAL = """
total, count = 0.0, 0
for epoch in range(3):
    for x, y in loader:
        loss = mse_loss(model(x), y)
        total += loss.item()
        count += 1
        print(total / count)
"""
A_TOTAL_OF_A_FUNCTION = """
def test():
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x) > 0).sum().item()
            if right > 100:
                break
    return right
print(test())
"""
A_TOTAL_THAT_STARTS_AGAIN = """
total = 0.0
for step, (x, y) in enumerate(loader):
    total += mse_loss(model(x), y).item()
    if step % 10 == 9:
        print(total)
        total = 0.0
"""
TOTALS = [A_TOTAL, A_TOTAL_OF_A_FUNCTION, A_TOTAL_THAT_STARTS_AGAIN]

# Here more follows from what a round finds a total to be.
A_TOTAL_READ_FIRST = """
total = 0
for x, y in loader:
    if total > 10:
        break
    total += 1
"""
A_TOTAL_HANDED_ON = """
total, last = 0, None
for x, y in loader:
    print(last)  # late
    total += mse_loss(model(x), y)
    last = total
"""
A_TOTAL_OF_ROWS = """
total = 0
for x, y in loader:
    for part in model:
        total += part(x)
    print(total)
    total = 0
"""
A_TOTAL_OF_A_CLOSURE = """
def main():
    def show():
        print(total)
    total = 0
    for x, y in loader:
        show()
        total += 1
main()
"""
NO_MERE_TOTALS = [A_TOTAL_READ_FIRST, A_TOTAL_HANDED_ON, A_TOTAL_OF_ROWS, A_TOTAL_OF_A_CLOSURE]

# Asked for while a module is being built, whether it only computes turns out to be otherwise.
A_MODULE_WITH_DEFAULTS = """
class Net(torch.nn.Module):
    def __init__(self, width=3, bias=True):
        super().__init__()
        self.width = width
        self.first = torch.nn.Linear(3, width, bias=bias)
        self.second = torch.nn.Linear(width, 1)
    def forward(self, x, scale=1.0):
        return self.second(self.first(x)) * scale
net = Net()
for x, y in loader:
    mse_loss(net(x), y).backward()
"""
A_LOSS_WITH_DEFAULTS = """
class Loss(torch.nn.Module):
    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps
    def forward(self, x, y, reduction="mean"):
        if reduction == "mean":
            return mse_loss(x, y) + self.eps
        return mse_loss(x, y, reduction="sum")
loss = Loss()
for x, y in loader:
    print(loss(model(x), y))
"""
MODULES = [A_MODULE_WITH_DEFAULTS, A_LOSS_WITH_DEFAULTS]

# What these hold of batches' numbers, or of layers, no earlier line looks into.
NUMBERS_IN_A_LIST = """
losses = []
for epoch in range(3):
    for x, y in loader:
        losses.append(mse_loss(model(x), y).item())
"""
NUMBERS_IN_AN_ATTRIBUTE = """
class Log:
    def __init__(self):
        self.numbers = {}
log = Log()
for x, y in loader:
    log.numbers["loss"] = mse_loss(model(x), y).item()
"""
LAYERS_IN_A_LIST = """
def made(layers):
    parts = []
    for _ in range(layers):
        parts.append(torch.nn.Linear(3, 3))
    return torch.nn.Sequential(*parts)
net = made(3)
for x, y in loader:
    mse_loss(net(x), y).backward()
"""
COLLECTIONS = [NUMBERS_IN_A_LIST, NUMBERS_IN_AN_ATTRIBUTE, LAYERS_IN_A_LIST]

METER = """
import time
class Meter:
    def __init__(self):
        self.sum = 0
        self.count = 0
    def update(self, new, n=1):
        EARLY
        self.sum += new * n
        self.count += n
        self.mean = self.sum / self.count
losses, times = Meter(), Meter()
for x, y in loader:
    times.update(time.time())
    losses.update(mse_loss(model(x), y).item(), x.size(0))
    print(losses.mean, times.mean)
"""
A_METER = METER.replace("EARLY", "pass")
STAGES = """
class Net(torch.nn.Module):
    def __init__(self, widen=2):
        super().__init__()
        self.planes = 16
        self.first = torch.nn.Conv2d(3, self.planes, 1)
        self.second = self.stage(32 * widen)
        self.third = self.stage(64 * widen)
        self.last = torch.nn.Linear(self.planes, 1)
    def stage(self, planes):
        made = torch.nn.Conv2d(self.planes, planes, 1)
        self.planes = planes
        return made
    def forward(self, x):
        return self.last(self.third(self.second(self.first(x))))
net = Net()
for x, y in loader:
    mse_loss(net(x), y).backward()
"""
SET_AFTER_READS = [A_METER, STAGES]

# One place makes two objects that are not told apart, the second after the first is used.
IN_AN_ARGUMENT = """
def made(reduction): return torch.nn.MSELoss(reduction=reduction)
def by_two(reduction): return made(reduction)
def by_three(reduction): return by_two(reduction)
def by_four(reduction): return by_three(reduction)
criterion = by_four("mean")
for x, y in loader:
    loss = criterion(model(x), y)
other = by_four("sum")
"""
A_DICTIONARY_FOR_A_BATCH = """
def collate(samples):
    rows = torch.stack([one for one, _ in samples]).transpose(0, 1)
    return {"rows": rows, "lists": [one for one, _ in samples]}
for batch in DataLoader(data, batch_size=4, collate_fn=collate):
    mse_loss(model(batch["rows"]), batch["rows"]).backward()
"""
PUT_INTO_A_BATCH = A_DICTIONARY_FOR_A_BATCH.replace(
    "    mse", "    batch['rows'] = batch['rows'].to(device)\n    mse"
)
IN_UNCALLED_CODE = """
def main():
    def show():
        for x, y in loader:
            print(mse_loss(model(x), y))
"""

# Each makes tuples that hold the ones of the round, or of the call, before.
TUPLE_IN_A_NAME = """
state = 0
for x, y in loader:
    state = (state, x)
"""
TUPLE_IN_AN_ATTRIBUTE = """
class Log:
    def __init__(self):
        self.last = 0
log = Log()
for x, y in loader:
    log.last = (log.last, log.last, y)
"""
TUPLE_IN_A_DICTIONARY = """
def read(settings):
    settings["betas"] = (settings.get("first", 0.9), settings.get("betas", 0.99))
settings = {}
while True:
    read(settings)
"""
TUPLE_OF_A_RECURSION = """
def mapped(held):
    if isinstance(held, tuple):
        return list(zip(*map(mapped, held)))
    if isinstance(held, dict):
        return list(map(type(held), zip(*map(mapped, held.items()))))
    return [held for _ in range(4)]
for x, y in loader:
    print(mapped((x, y, {"x": x})))
"""
TUPLE_THAT_GETS_LONGER = """
def states(x):
    kept = ()
    for layer in layers:
        x = layer(x)
        kept = kept + (x,)
    return kept
for x, y in loader:
    print(states(x))
"""
TUPLES_OF_WHAT_ROUNDS_CHANGE = """
def states(x, keep):
    kept, weights = (), () if keep else None
    for layer in layers:
        kept = kept + (x,)
        out = layer(x, keep)
        x = out[0] if keep else out.abs()
        if keep:
            weights += (out[1],)
    return kept + (x,), weights
for x, y in loader:
    print(states(model(x), args.keep))
"""
# One call, in which a loop starts with rows of each sample, and then with their mean.
A_LOOP_OVER_EACH_OF_A_TUPLE = """
def grown(rows):
    for _ in range(2):
        rows = rows + 1
    return rows
def both(*parts):
    return [grown(part) for part in parts]
for x, y in loader:
    print(both(model(x), x.mean(0)))
"""
RECURSION_OF_A_BACKWARD = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, factor, rows):
        return rows * factor

    @staticmethod
    def backward(ctx, grad):
        return (None,) + (Twice.apply(2, grad),)
for x, y in loader:
    mse_loss(Twice.apply(2, model(x)), y).backward()
"""
IN_ITSELF = [
    A_LOOP_OVER_EACH_OF_A_TUPLE,
    TUPLES_OF_WHAT_ROUNDS_CHANGE,
    RECURSION_OF_A_BACKWARD,
    TUPLE_THAT_GETS_LONGER,
    TUPLE_IN_A_NAME,
    TUPLE_IN_AN_ATTRIBUTE,
    TUPLE_IN_A_DICTIONARY,
    TUPLE_OF_A_RECURSION,
]

SET_IN_ITS_CONSTRUCTOR = """
def widen(net):
    net.width = 5
class Net(torch.nn.Module):
    def set(self):
        self.width = 6
    def choose(self, deep):
        if deep:
            self.width = 5
            return
        self.width = 6
    def ask(self):
        return self.width
    def __init__(self, deep):
        super().__init__()
        self.width = 3
        HERE
        print(self.width)  # read
        if deep:
            self.body = torch.hub.load("some/models", "first")
            self.body = self.body.encoder
        else:
            self.body = torch.hub.load("some/models", "second")
        self.width = 4
Net(args.deep)
"""
# Lines of a constructor that may set the attribute again, and what it may be then at least.
OTHERWISE_SET = {
    "self.width = 5": {5},
    "if deep: self.width = 5": {3, 5},
    "if deep: setattr(self, 'width', 5)": {3, 5},
    "setattr(self, 'w' + args.name, 5)": {3, 4},
    "for _ in range(deep): self.width = 5": {3, 5},
    "widen(self)": {3, 5},
    "widen(net=self)": {3, 5},
    "self.set()": {6},
    "self.ask()": {3},
    "if deep: self.set()": {3, 6},
    "self.choose(deep)": {5, 6},
    "for _ in range(deep): self.set()": {3, 6},
    "self.set(); self.width = 5; self.set()": {6},
}


class Counted(Interpreter):
    """A run that counts its passes."""

    passes = 0

    def one_pass(self) -> None:
        self.passes += 1
        super().one_pass()


def counted(text: str) -> Counted:
    """A run over a script, to its end."""
    run = Counted(Project(source_from_bytes((HEAD + text).encode(), "train.py")))
    run.run()
    return run


def held_where_read(line: str) -> set[object]:
    """What the attribute may be that a constructor reads behind such a line."""
    text = SET_IN_ITS_CONSTRUCTOR.replace("HERE", line)
    run, lines = counted(text), (HEAD + text).split("\n")
    at = next(number for number, one in enumerate(lines, 1) if one.endswith("# read"))
    entry = run.project.entry
    read = next(one for one in entry.structure.all(cst.Call) if entry.line(one) == at)
    return {one.value for one in run.facts.values[read.args[0].value].of(Const)}


@pytest.mark.parametrize("text", LATE)
def test_what_comes_late_is_found(text: str) -> None:
    line = next(n for n, one in enumerate((HEAD + text).split("\n"), 1) if one.endswith("# late"))
    run = counted(text)
    assert line in {demand.site.line for demand in run.facts.demands.values()}
    assert run.passes > 1


def test_what_turns_out_to_be_a_model_was_one_before() -> None:
    run = counted(
        "import timm\nnet = timm.create_model('resnet18')\nnet(torch.zeros(1, 3))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    )
    events = [kind.kind for one, kinds in run.facts.events.items() for kind in kinds if one.role]
    assert "call" in events


def test_one_pass_does_where_nothing_comes_late() -> None:
    run = counted("for x, y in loader:\n    loss = mse_loss(model(x), y)\n    loss.backward()\n")
    assert run.facts.backwards
    assert run.passes == 1


@pytest.mark.parametrize("text", [*TOTALS, *MODULES, *COLLECTIONS, *SET_AFTER_READS])
def test_one_pass_does_for_totals_modules_and_collections(text: str) -> None:
    assert counted(text).passes == 1


def test_what_a_collate_function_makes_stays_what_it_is() -> None:
    """Were it the batch from then on, the next pass would make something else of it again."""
    run = counted(A_DICTIONARY_FOR_A_BATCH)
    shown = next(iter(run.project.entry.structure.all(cst.Dict)))
    made = next(run.facts.values[shown].of(Instance))
    assert any((made.attribute("['lists']") or UNKNOWN).of(Instance))


def test_two_passes_do_where_a_batch_is_written_into() -> None:
    assert counted(PUT_INTO_A_BATCH).passes <= 2


def test_two_passes_do_where_a_value_comes_from_the_round_before_last() -> None:
    assert counted(OF_THE_ROUND_BEFORE_LAST).passes == 2


def test_a_meter_that_is_read_before_it_counts_needs_another_pass() -> None:
    assert counted(METER.replace("EARLY", "print(self.sum)")).passes > 1


def test_one_pass_does_where_a_constructor_reads_what_it_has_set() -> None:
    assert counted(SET_IN_ITS_CONSTRUCTOR.replace("HERE", "pass")).passes == 1


def test_a_constructor_reads_what_it_has_set() -> None:
    assert held_where_read("pass") == {3}


@pytest.mark.parametrize("line", OTHERWISE_SET)
def test_a_constructor_reads_what_may_have_been_set_since(line: str) -> None:
    assert held_where_read(line) >= OTHERWISE_SET[line]


@pytest.mark.parametrize("text", NO_MERE_TOTALS)
def test_what_depends_on_a_total_needs_another_pass(text: str) -> None:
    assert counted(text).passes > 1


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.parent.name)
def test_another_pass_finds_the_same(script: Path) -> None:
    run = Interpreter(Project(read_source(script)))
    run.run()
    finds_the_same(run)


@pytest.mark.parametrize("text", IN_ITSELF)
def test_what_holds_itself_stops_growing(text: str) -> None:
    assert not counted(text).reads_change


@pytest.mark.parametrize(
    "text",
    [TUPLE_THAT_GETS_LONGER, TUPLES_OF_WHAT_ROUNDS_CHANGE, A_LOOP_OVER_EACH_OF_A_TUPLE],
)
def test_three_passes_do_where_rounds_change_what_they_start_with(text: str) -> None:
    assert counted(text).passes <= 3


@pytest.mark.parametrize(
    "text",
    [
        *LATE,
        *IN_ITSELF,
        *TOTALS,
        *NO_MERE_TOTALS,
        *MODULES,
        *COLLECTIONS,
        *SET_AFTER_READS,
        IN_AN_ARGUMENT,
        IN_UNCALLED_CODE,
    ],
)
def test_another_pass_finds_what_came_late(text: str) -> None:
    finds_the_same(counted(text))


def finds_the_same(run: Interpreter) -> None:
    """One more pass changes no fact."""
    found, held = run.facts, dict(run.facts.values)
    run.one_pass()
    assert not run.reads_change
    assert run.facts.values == held
    kinds = [one.name for one in fields(Facts)]
    assert [kind for kind in kinds if getattr(found, kind) != getattr(run.facts, kind)] == []


def test_a_function_is_searched_once_however_often_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[cst.CSTNode] = []

    def noted(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        searched.append(node)
        return walk(node)

    monkeypatch.setattr(structure, "walk", noted)
    calls = "".join(f"    print(shown(x, {n}))\n" for n in range(20))
    counted("def shown(x, n, of=None):\n    return x.size(n)\nfor x, y in loader:\n" + calls)
    assert len(searched) <= 1


def test_a_tuple_that_another_covers_adds_nothing() -> None:
    number, text = Const(1), Const("a")
    both = value(Tup((value(number, text), value(number))))
    for one in (number, text):
        narrow = value(Tup((value(one), value(number))))
        assert join(both, narrow) == join(narrow, both) == both
    longer = value(Tup((value(number),) * 3))
    assert len(join(both, longer).atoms) == 2


def test_the_elements_of_a_container_follow_what_it_comes_to_hold() -> None:
    run = counted("")
    made = Instance(cst.Name("made"), run.project.entry, "list")
    made.put("*", value(Const(1)))
    assert made.elements is made.elements
    made.put("[0]", value(Const(2)))
    assert made.elements == value(Const(1), Const(2))
    made.hold_all({"*": value(Const(3)), "[0]": value(Const(3))})
    assert made.elements == value(Const(3))


def test_many_values_are_joined_in_their_order() -> None:
    atoms = [Const(text) for text in "abcdefgh"]
    many = [value(atoms[n % 5], atoms[n % 8]) for n in range(40)]
    assert join(*many).atoms == tuple(dict.fromkeys(a for one in many for a in one.atoms))


def test_what_lists_hold_in_each_other_is_gone_through_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "import torch\nbox = [torch.nn.Linear(3, 1)]\n"
    text += (
        "".join(f"box += [[{n}], box]\n" for n in range(20)) + "model = torch.nn.Sequential(box)\n"
    )
    model = next(one for one in counted(text).facts.models if one.kind.endswith("Sequential"))
    opened: list[object] = []
    contents = Instance.contents

    def noted(one: Instance) -> Sequence[Value]:
        opened.append(one)
        return contents(one)

    monkeypatch.setattr(Instance, "contents", noted)
    found = list(layers(model))
    assert any(one.kind.endswith("Linear") for one in found)
    assert len(opened) == len(set(opened))
