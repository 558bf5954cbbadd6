"""The operator or idiom makes the batch."""

from __future__ import annotations

import random

from benchmarks.soundness.drafting import Draft, any_sink, statement, with_sink
from benchmarks.soundness.parts import Parts


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


_CLASS = [
    "class Batch:",
    "    def __init__(self, samples):",
    "        self.inputs, self.targets, self.labels = torch.utils.data.default_collate(samples)",
    "        self.count = len(samples)",
    "",
    "    def mean(self):",
    "        return self.inputs.mean(0)",
    "",
    "    def __len__(self):",
    "        return self.count",
    "",
    "",
]
_USES = (
    "r = out * batch.count",
    "r = out.sum() / batch.count",
    "r = out * len(batch)",
    "r = out - batch.mean()",
    "r = torch.tensor(float(batch.count))",
    "r = out / batch.inputs.shape[0]",
    "r = out.sum(0) / len(batch)",
    "r = torch.arange(batch.count)[:, None] * out",
    "r = out[batch.count - 1]",
    "r = torch.full((batch.count, 4), 0.5) * out",
)


def own_object(chance: random.Random) -> Draft:
    """A collate function gives an object with a count of its own, or a dictionary."""
    use = chance.choice(_USES)
    taken = "inputs, targets, labels = batch.inputs, batch.targets, batch.labels"
    definitions = list(_CLASS)
    made = "Batch"
    if chance.random() < 0.4:
        made = "collate"
        definitions = [
            "def collate(samples):",
            "    inputs, targets, labels = torch.utils.data.default_collate(samples)",
            "    found = {'inputs': inputs, 'targets': targets, 'labels': labels}",
            "    return {**found, 'count': len(samples), 'mean': inputs.mean(0)}",
            "",
            "",
        ]
        taken = "inputs, targets, labels = batch['inputs'], batch['targets'], batch['labels']"
        for attribute in ("count", "mean", "inputs"):
            use = use.replace(f"batch.{attribute}", f"batch['{attribute}']").replace("]()", "]")
    loader = [f"loader = DataLoader(data, batch_size={{size}}{{shuffle}}, collate_fn={made})"]
    parts = Parts(definitions, loader, head="for batch in loader:", result=[use])
    parts.forward = [taken, "out = model(inputs)"]
    return with_sink(use, parts, any_sink(chance))


def dataset(chance: random.Random) -> Draft:
    """A data set of the script's own, whose samples are made by an operator on all of them."""
    form, lines = statement(chance, "features", "goals", "labels")
    definitions = [
        "class Samples(torch.utils.data.Dataset):",
        "    def __init__(self, features, goals, labels):",
        *(f"        {line}" for line in lines),
        "        self.features, self.goals, self.labels = features, goals, labels",
        "        self.offset = r.double().mean()",
        "",
        "    def __len__(self):",
        "        return len(self.features)",
        "",
        "    def __getitem__(self, i):",
        "        return self.features[i] + self.offset, self.goals[i], self.labels[i]",
        "",
        "",
    ]
    loader = [
        "samples = Samples(*data.tensors)",
        "loader = DataLoader(samples, batch_size={size}{shuffle})",
    ]
    return Draft(form, Parts(definitions, loader, step=['print(f"{loss.item():.6f}")']))
