"""The kinds of scripts: where the operator or idiom stands that a script is about."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.soundness.forms import dimensions, layers, losses, operators, sinks, statements
from benchmarks.soundness.parts import MODELS, Parts

OPERATORS = operators.expanded(operators.ROWS)
SAME_SHAPE = operators.expanded(operators.SAME_SHAPE)
STATEMENTS = [*statements.IN_PLACE, *statements.BY_ROW]


@dataclass(frozen=True)
class Draft:
    """Parts of a script, and in words what it is about."""

    form: str
    parts: Parts


def written(form: str, x: str, y: str, k: str) -> str:
    """A form on the values of these names."""
    return form.replace("{x}", x).replace("{y}", y).replace("{k}", k)


def statement(chance: random.Random, x: str, y: str, k: str) -> tuple[str, list[str]]:
    """A form, and the lines that make ``r`` with it."""
    if chance.random() < 0.75:
        form = chance.choice(OPERATORS)
        return form, [f"r = {written(form, x, y, k)}"]
    lines = chance.choice(STATEMENTS)
    return "; ".join(lines), [written(line, x, y, k) for line in lines]


def any_sink(chance: random.Random) -> sinks.Sink:
    """What is done with a result: half of them into the loss."""
    return chance.choice(sinks.LOSS if chance.random() < 0.5 else sinks.OTHER)


def with_sink(form: str, parts: Parts, sink: sinks.Sink) -> Draft:
    """Do with ``r`` in a training loop what the sink says."""
    parts.before += sink.before
    parts.loss = [*parts.loss, *sink.loss]
    parts.step += sink.step
    parts.end += sink.end
    return Draft(form, parts)


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


def batch_dimension(chance: random.Random) -> Draft:
    """The batch in another dimension than the first."""
    form = chance.choice(dimensions.DIMENSIONS)
    parts = Parts(result=[f"r = {written(form, 'out', 'targets', 'labels')}"])
    return with_sink(form, parts, any_sink(chance))


def net(lines: list[str], arguments: str = "inputs") -> list[str]:
    """A model whose forward has these lines, with layers ``body`` and ``head``."""
    return [
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 4)",
        "        self.extra = 0.0",
        "",
        f"    def forward(self, {arguments}):",
        "        h = torch.tanh(self.body(inputs))",
        *(f"        {line}" for line in lines),
        "",
        "",
    ]


FORWARD_ENDS = (
    "return self.head(r)",
    "return self.head(h + r)",
    "return self.head(h * r)",
    "return self.head(h) * r.double().mean()",
    "return self.head(h) + 0.1 * r.double().sum()",
    "return self.head(h) + r.double().abs().max()",
    "return self.head(h / (1 + r.double().numel()))",
    "return self.head(h) if r.double().mean() > 0 else 2 * self.head(h)",
    "return self.head(torch.where(r.double().mean() > 0, h, 2 * h))",
)


def forward(chance: random.Random) -> Draft:
    """In the forward of a model."""
    form, lines = statement(chance, "h", "inputs", "inputs.argmax(1)")
    parts = Parts(model=["model = Net()"])
    choice = chance.randrange(6)
    if choice == 0:  # what it finds is returned
        parts.definitions = net([*lines, "return self.head(h), r"])
        parts.forward = ["out, r = model(inputs)"]
        return with_sink(form, parts, any_sink(chance))
    if choice == 1:  # it is kept in an attribute
        parts.definitions = net(
            [*lines, "self.extra = r.double().pow(2).mean()", "return self.head(h)"]
        )
        parts.loss.append("loss = loss + 0.1 * model.extra")
    elif choice == 2:  # it is a loss inside
        ends = ["return F.mse_loss(self.head(h), targets) + 0.1 * r.double().pow(2).mean()"]
        parts.definitions = net([*lines, *ends], "inputs, targets")
        parts.forward, parts.loss = ["loss = model(inputs, targets)"], []
    else:
        parts.definitions = net([*lines, chance.choice(FORWARD_ENDS)])
    if chance.random() < 0.3:
        parts.step = ['print(f"{loss.item():.6f}")']
    return Draft(form, parts)


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


def layer(chance: random.Random) -> Draft:
    """A layer in a model."""
    made, used = chance.choice(layers.LAYERS)
    expression = used.replace("{h}", "h").replace("{k}", "labels")
    end = chance.choice([f"return self.head({expression})", f"return {expression}"])
    definitions = net([end], "inputs, labels")
    definitions.insert(5, f"        {made}")
    parts = Parts(definitions, model=["model = Net()"])
    parts.forward = ["out = model(inputs, labels)"]
    parts.loss = ["loss = (out - targets.mean(1, keepdim=True)).pow(2).mean()"]
    parts.step = ['print(f"{loss.item():.6f}")']
    return Draft(f"{made}; {used}", parts)


def collate(chance: random.Random) -> Draft:
    """In a collate function."""
    form, lines = statement(chance, "inputs", "targets", "labels")
    stacked = chance.choice(
        [
            ["inputs, targets, labels = (torch.stack(part) for part in zip(*samples))"],
            ["inputs, targets, labels = torch.utils.data.default_collate(samples)"],
            [
                "inputs = torch.stack([sample[0] for sample in samples])",
                "targets = torch.stack([sample[1] for sample in samples])",
                "labels = torch.tensor([int(sample[2]) for sample in samples])",
            ],
        ]
    )
    end = chance.choice(
        [
            "return inputs, r, labels",
            "return r, targets, labels",
            "return inputs + 0.1 * r, targets, labels",
            "return inputs * r.double().mean(), targets, labels",
            "return inputs, targets, r",
        ]
    )
    lines = [*stacked, *lines, end]
    definitions = ["def collate(samples):", *(f"    {line}" for line in lines), "", ""]
    loader = ["loader = DataLoader(data, batch_size={size}{shuffle}, collate_fn=collate)"]
    parts = Parts(definitions, loader)
    if end.endswith(" r"):
        parts.head = "for inputs, targets, r in loader:"
        return with_sink(form, parts, any_sink(chance))
    parts.step = ['print(f"{loss.item():.6f}", len(inputs))']
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


def hook(chance: random.Random) -> Draft:
    """In hooks of layers and gradients."""
    form, lines = statement(chance, "z", "z.detach().tanh()", "z.argmax(1)")
    lines = [line.replace("z = z.clone()", "z = z * 1.0") for line in lines]
    ends = [
        "return z + 0.1 * r",
        "return z * r.double().mean()",
        "return r",
        "kept.append(r.detach())",
    ]
    end = chance.choice(ends)
    parts = Parts(before=["kept = []"])
    if chance.random() < 0.6:
        head, call = "def hook(layer, args, z):", "model[0].register_forward_hook(hook)"
        parts.before.append(call)
    else:
        head = "def hook(z):"
        parts.forward = ["out = model(inputs)", "out.register_hook(hook)"]
    parts.model = ["model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))"]
    parts.definitions = [head, *(f"    {line}" for line in (*lines, end)), "", ""]
    parts.end = ['print(len(kept), f"{sum(r.double().sum().item() for r in kept):.6f}")']
    return Draft(form, parts)


def function(chance: random.Random) -> Draft:
    """In the forward or the backward of an autograd Function."""
    form = chance.choice(SAME_SHAPE)
    r = f"{written(form, 'z', 'z.tanh()', 'z.argmax(1)')}"
    forward_line, backward_line = ("r = z * 2.0", f"r = {r}")
    if chance.random() < 0.5:
        forward_line, backward_line = f"r = {r}", "r = z * 0.5"
    definitions = [
        "class Own(torch.autograd.Function):",
        "    @staticmethod",
        "    def forward(ctx, z):",
        f"        {forward_line}",
        "        return r",
        "",
        "    @staticmethod",
        "    def backward(ctx, z):",
        f"        {backward_line}",
        "        return r",
        "",
        "",
    ]
    return Draft(form, Parts(definitions, forward=["out = Own.apply(model(inputs))"]))


def by_hand(chance: random.Random) -> Draft:
    """Batches that the script cuts itself."""
    form, lines = statement(chance, "out", "targets", "labels")
    size = chance.choice([4, 5])
    cut = [f"inputs, targets = features[i : i + {size}], goals[i : i + {size}]"]
    if chance.random() < 0.5:
        cut = [f"rows = order[i : i + {size}]", "inputs, targets = features[rows], goals[rows]"]
    parts = Parts(result=lines, loader=["order = torch.randperm(len(features))"])
    parts.head = f"for i in range(0, len(features), {size}):"
    parts.forward = [
        *cut,
        "labels = targets.argmax(1)",
        "out = model(inputs)",
    ]
    return with_sink(form, parts, any_sink(chance))


KINDS: dict[str, tuple[Callable[[random.Random], Draft], int]] = {
    "loop": (loop, 6),
    "several": (several, 2),
    "dimensions": (batch_dimension, 2),
    "forward": (forward, 6),
    "criterion": (criterion, 3),
    "loss": (loss, 2),
    "layer": (layer, 3),
    "collate": (collate, 3),
    "helper": (helper, 2),
    "class": (trainer, 2),
    "container": (container, 2),
    "evaluation": (evaluation, 3),
    "hook": (hook, 2),
    "function": (function, 1),
    "by-hand": (by_hand, 2),
}
"""How each kind is drafted, and how often against the others."""
