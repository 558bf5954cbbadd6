"""The operator or idiom stands in the training loop, or in what it calls."""

from __future__ import annotations

import random

from benchmarks.soundness.drafting import Draft, any_sink, statement, with_sink, written
from benchmarks.soundness.forms import dimensions, gradients, losses, positions, rounds, sinks
from benchmarks.soundness.forms.operators import OF_THREE, OPERATORS, SAME_SHAPE
from benchmarks.soundness.parts import MODELS, Parts


def loop(chance: random.Random) -> Draft:
    """In the training loop, on outputs and batches."""
    x, y = chance.choice([("out", "targets"), ("out", "inputs"), ("inputs", "targets")])
    form, lines = statement(chance, x, y, "labels")
    parts = Parts(model=chance.choice(MODELS), result=lines)
    return with_sink(form, parts, any_sink(chance))


def several(chance: random.Random) -> Draft:
    """Two operators, one on the result of the other."""
    first, second = chance.choice(SAME_SHAPE), chance.choice(OPERATORS)
    lines = [f"z = {written(first, 'out', 'targets', 'labels')}"]
    lines += [f"r = {written(second, 'z', 'targets', 'labels')}"]
    return with_sink(f"{first}; {second}", Parts(result=lines), any_sink(chance))


def places(chance: random.Random) -> Draft:
    """Positions of rows that the script works out itself."""
    lines = chance.choice(positions.POSITIONS)
    drawn = [written(line, "out", "targets", "labels") for line in lines]
    return with_sink("; ".join(lines), Parts(result=drawn), any_sink(chance))


def by_rounds(chance: random.Random) -> Draft:
    """A loop of a round for each row, or what rows pick from a table."""
    lines = chance.choice(rounds.ROUNDS)
    drawn = [written(line, "out", "targets", "labels") for line in lines]
    return with_sink("; ".join(lines), Parts(result=drawn), any_sink(chance))


def batch_dimension(chance: random.Random) -> Draft:
    """The batch in another dimension than the first."""
    form = chance.choice(dimensions.DIMENSIONS)
    parts = Parts(result=[f"r = {written(form, 'out', 'targets', 'labels')}"])
    return with_sink(form, parts, any_sink(chance))


def criterion(chance: random.Random) -> Draft:
    """In the forward of a criterion."""
    form, lines = statement(chance, "out", "targets", "labels")
    end = chance.choice(
        [
            "return F.mse_loss(out, targets) + 0.1 * r.double().pow(2).mean()",
            "return F.mse_loss(out, targets) * (1 + r.double().abs().mean())",
            "return ((out - r) ** 2).mean()",
            "return (r * targets).mean()",
            "return r.double().mean() + F.mse_loss(out, targets)",
        ]
    )
    definitions = [
        "class Criterion(nn.Module):",
        "    def forward(self, out, targets, labels):",
        *(f"        {line}" for line in (*lines, end)),
        "",
        "",
    ]
    parts = Parts(definitions, loss=["loss = criterion(out, targets, labels)"])
    parts.before = ["criterion = Criterion()"]
    if chance.random() < 0.3:
        parts.step = ['print(f"{loss.item():.6f}")']
    return Draft(form, parts)


def loss(chance: random.Random) -> Draft:
    """A loss of torch, or written out."""
    form = chance.choice(losses.LOSSES)
    after = chance.choice(["", "", ".mean()", ".sum()"])
    parts = Parts(loss=[f"loss = ({form}){after}" if after else f"loss = {form}"])
    if "none" in form or "None" in form:
        parts.loss[0] = f"loss = {form}.{chance.choice(['mean', 'sum'])}()"
    parts.step = [chance.choice(['print(f"{loss.item():.6f}")', "total = loss.item()"])]
    return Draft(form, parts)


def helper(chance: random.Random) -> Draft:
    """In a function that the loop calls."""
    form, lines = statement(chance, "a", "b", "c")
    body = ["def measured(a, b, c):", *(f"    {line}" for line in lines), "    return r", "", ""]
    call = "r = measured(out, targets, labels)"
    if chance.random() < 0.3 and len(lines) == 1:
        body = [f"measured = lambda a, b, c: {lines[0].removeprefix('r = ')}", "", ""]
    elif chance.random() < 0.3:
        call = "r = functools.partial(measured, c=labels)(out, targets)"
    elif chance.random() < 0.3:
        call = "r = measured(*(out, targets, labels))"
    return with_sink(form, Parts(body, result=[call]), any_sink(chance))


def trainer(chance: random.Random) -> Draft:
    """In the methods of a class."""
    form, lines = statement(chance, "out", "targets", "labels")
    body = [
        "class Meter:",
        "    def __init__(self):",
        "        self.values, self.last = [], None",
        "",
        "    def measured(self, out, targets, labels):",
        *(f"        {line}" for line in lines),
        "        self.last = r",
        "        self.values.append(r.double().detach().mean().item())",
        "        return r",
        "",
        "",
    ]
    call = chance.choice(
        ["r = meter.measured(out, targets, labels)"] * 2
        + ["meter.measured(out, targets, labels); r = meter.last"]
    )
    parts = Parts(body, before=["meter = Meter()"], result=call.split("; "))
    parts.end = ['print(f"{sum(meter.values) / len(meter.values):.6f}")']
    return with_sink(form, parts, any_sink(chance))


def container(chance: random.Random) -> Draft:
    """Through containers: lists, dictionaries, tuples, comprehensions."""
    form, lines = statement(chance, "z['out']", "z['targets']", "z['labels']")
    ways = [
        ["r = {'r': r, 'n': 1}['r']"],
        ["parts = [r, targets]", "r = parts[0]"],
        ["parts = (out, r)", "_, r = parts"],
        ["r = [v for v in (out, r)][-1]"],
        ["parts = dict(a=r, b=out)", "r = sum(v.double().mean() for v in parts.values())"],
        ["Pair = collections.namedtuple('Pair', 'a b')", "pair = Pair(r, out)", "r = pair.a"],
        ["parts = []", "parts.append(r)", "parts.append(r * 2)", "r = torch.stack(parts)"],
        ["parts = collections.deque([r], maxlen=2)", "r = parts.pop()"],
    ]
    first = "z = {'out': out, 'targets': targets, 'labels': labels}"
    if any(line.startswith("z") for line in lines):
        first, lines = first.replace("z =", "w ="), [line.replace("z['", "w['") for line in lines]
    parts = Parts(result=[first, *lines, *chance.choice(ways)])
    return with_sink(form, parts, any_sink(chance))


def evaluation(chance: random.Random) -> Draft:
    """After the training, without gradients."""
    form, lines = statement(chance, "out", "targets", "labels")
    sink = chance.choice([s for s in sinks.OTHER if s.name != "decides" and not s.loss])
    parts = Parts()
    parts.end = [
        "model.eval()",
        *sink.before,
        "with torch.no_grad():",
        "    for inputs, targets, labels in DataLoader(data, batch_size=4):",
        "        out = model(inputs)",
        *(f"        {line}" for line in lines),
        "        loss = F.mse_loss(out, targets)",
        *(f"        {line}" for line in sink.step),
        *sink.end,
    ]
    return Draft(form, parts)


def three_dimensions(chance: random.Random) -> Draft:
    """On tensors of three dimensions."""
    form = chance.choice(OF_THREE)
    shaped = ["a, b = out.view(-1, 2, 2), targets.view(-1, 2, 2)"]
    lines = [*shaped, f"r = {written(form, 'a', 'b', 'labels')}"]
    sink = any_sink(chance)
    parts = Parts(result=lines)
    if "targets" in " ".join(sink.loss) or "out" in " ".join(sink.loss):
        parts.result.append("out, targets = a, b")
        parts.loss = ["loss = F.mse_loss(out, targets)"]
    return with_sink(form, parts, sink)


def gradient(chance: random.Random) -> Draft:
    """Between the loss and the optimizer's step."""
    parts = Parts()
    if chance.random() < 0.5:
        lines = chance.choice(gradients.GRADIENTS)
        parts.gradients = lines
    else:
        lines = chance.choice(gradients.PENALTIES)
        parts.loss = [*parts.loss, *lines]
    parts.step = ['print(f"{loss.item():.6f}")']
    return Draft("; ".join(lines), parts)


def accumulation(chance: random.Random) -> Draft:
    """Gradients of two batches for one step."""
    form, lines = statement(chance, "out", "targets", "labels")
    parts = Parts(result=lines, head="for i, (inputs, targets, labels) in enumerate(loader):")
    parts.loss = ["loss = F.mse_loss(out, targets) / 2"]
    parts.clear, parts.update = (
        [],
        [
            "if (i + 1) % 2 == 0 or i + 1 == len(loader):",
            "    optimizer.step()",
            "    optimizer.zero_grad()",
        ],
    )
    return with_sink(form, parts, chance.choice([s for s in sinks.LOSS if "out" not in s.loss[0]]))
