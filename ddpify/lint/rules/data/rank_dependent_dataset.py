"""Each rank builds another data set, and the sampler splits them as if they were one.

## What it does
Looks for data sets made of random numbers without a common seed, behind a `DistributedSampler`.

## Why is this bad
The sampler gives each rank some indices of one data set. Where index 7 is another sample on each
rank, samples are lost and the epoch is no pass over any data; labels drawn in that way
teach nothing.

## Example
```python
synthetic = TensorDataset(torch.randn(64, 10), torch.randint(2, (64,)))
loader = DataLoader(synthetic, 8, sampler=DistributedSampler(synthetic))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
class Toy(Dataset):
    def __init__(self, size):
        self.data = [(torch.rand(10), torch.tensor(0)) for _ in range(size)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]

toy = Toy(64)
loader = DataLoader(toy, 8, sampler=DistributedSampler(toy))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
np.random.seed(rank)
table = torch.from_numpy(np.random.rand(64, 10))
synthetic = TensorDataset(table, torch.zeros(64).long())
loader = DataLoader(synthetic, 8, sampler=DistributedSampler(synthetic))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

```python
class Toy(Dataset):
    def __init__(self, size):
        rng = np.random.default_rng()
        self.data = rng.random((size, 10))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index], 0

toy = Toy(64)
loader = DataLoader(toy, 8, sampler=DistributedSampler(toy))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Use instead
```python
g = torch.Generator().manual_seed(0)
x, y = torch.randn(64, 10, generator=g), torch.randint(2, (64,), generator=g)
synthetic = TensorDataset(x, y)
loader = DataLoader(synthetic, 8, sampler=DistributedSampler(synthetic))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Also fine
Augmentation at each access, and a seed that all ranks share.
```python
class Augmented(Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        x, y = self.data[index]
        return x + 0.1 * torch.randn(10), y

augmented = Augmented(dataset)
loader = DataLoader(augmented, 8, sampler=DistributedSampler(augmented))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
torch.manual_seed(0)
synthetic = TensorDataset(torch.randn(64, 10), torch.randint(2, (64,)))
loader = DataLoader(synthetic, 8, sampler=DistributedSampler(synthetic))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## When not to follow it
Where the data is a stand-in whose content does not matter, as in a measurement of speed.

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.datasets import datasets
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import agreed, family
from ddpify.lint.scripts.splits import PERMUTATIONS, SHUFFLES, shuffles
from ddpify.understanding.libraries.entropy import starts_anew
from ddpify.understanding.libraries.runtime_names import SHARD_BATCH, SPLIT
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.sources import draws
from ddpify.understanding.values import Class, Data, Function, Instance

_GENERATORS = ("random.Random", "numpy.random.default_rng", "numpy.random.RandomState")


@rule(
    "rank-dependent-dataset",
    group="data",
    severity=Severity.SILENT,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Split loaders over data sets that are drawn at random."""
    yield from _split_again(script)
    for loader in script.training_loaders:
        if not script.is_sharded(loader):
            continue
        for dataset in (*datasets(loader), *_divided(script, loader)):
            if dataset.module is script.module and _is_drawn(script, dataset):
                yield Finding(
                    dataset.site,
                    "each rank draws a data set of its own: a sampler cannot split what is not the"
                    " same on all ranks",
                )


def _divided(script: Script, loader: Instance) -> Iterator[Instance]:
    """The data sets of the project of which ``random_split()`` gives a loader a part."""
    made, module = loader.site, script.owners.get(loader.site)
    given = argument(made, "dataset", 0) if isinstance(made, cst.Call) else None
    if given is None or module is None or datasets(loader):
        return
    for one in script.flow.ancestry(given.value, module):
        if isinstance(one.node, (cst.Call, cst.Name)):
            yield from (
                x
                for x in script.instances(one.node)
                if isinstance(x.type, Class) and x.type.find("__getitem__") is not None
            )


def _split_again(script: Script) -> Iterator[Finding]:
    """Batches that ddpify's runtime is to split although a rank holds its own rows already."""
    for call in script.calls(SHARD_BATCH, SPLIT):
        if any(one.keyword is not None and one.keyword.value == "rows" for one in call.args):
            continue  # rows of which there are so many stay as they are
        for given in call.args:
            held = script.value(given.value).atoms if given.keyword is None else ()
            if held and all(_is_rows(atom) for atom in held):
                yield Finding(given, "each rank has its own rows of this already: splits it again")


def _is_rows(atom: object) -> bool:
    return isinstance(atom, Data) and atom.placement is Placement.SHARD and not atom.opaque


def _is_drawn(script: Script, dataset: Instance) -> bool:
    """Whether random numbers without a common seed go into what the data set holds."""
    return any(
        _differs(script, name, call)
        for call in _makers(script, dataset)
        if not _is_of_a_part(script, dataset, call)
        for name in script.names(call.func)
    )


def _is_of_a_part(script: Script, dataset: Instance, call: cst.Call) -> bool:
    """Whether an object that the data set keeps, such as a transform, keeps a generator."""
    structure = script.structure_of(call)
    owner = structure.class_of(call)
    own = dataset.type.node if isinstance(dataset.type, Class) else None
    statement = structure.statement(call)
    kept = isinstance(statement, cst.SimpleStatementLine) and any(
        isinstance(part, cst.Assign) and isinstance(part.targets[0].target, cst.Attribute)
        for part in statement.body
    )
    made = any(name in _GENERATORS for name in script.names(call.func))
    return made and kept and owner is not None and owner is not own


def _differs(script: Script, name: str, call: cst.Call) -> bool:
    if starts_anew(script.facts, name, call):
        return True
    own = argument(call, "generator") is not None
    return (draws(name) or name in SHUFFLES) and not own and not agreed(script, family(name))


def _makers(script: Script, dataset: Instance) -> Iterator[cst.Call]:
    """The calls that the content of a data set comes from."""
    if isinstance(dataset.type, Class):
        made = dataset.type.find("__init__")
        for function in made.of(Function) if made is not None else ():
            reached = list(script.reached(function.node))
            kept = _kept(script, reached)
            for call in _calls(reached):
                if call in kept or not any(map(draws, script.names(call.func))):
                    yield call
        if isinstance(dataset.site, cst.Call):
            yield from _shuffles(script, dataset.site)
    elif isinstance(dataset.site, cst.Call) and dataset.type.endswith(".TensorDataset"):
        for one in dataset.site.args:
            sources = script.flow.ancestry(one.value, script.owners[dataset.site])
            yield from _calls(source.node for source in sources)


def _kept(script: Script, reached: list[cst.CSTNode]) -> set[cst.CSTNode | None]:
    """What comes to the attributes that some code sets, or decides what is put into them.

    A number that is drawn to guess how much memory the samples need does not.
    """
    moves = [edge for node in reached for edge in script.flow.edges_at(node)]
    values = [
        edge.value
        for edge in moves
        if isinstance(edge.value, cst.BaseExpression)
        and any(slot[0] == "attribute" for slot in edge.targets)
    ]
    made = _ancestry(script, values)
    slots = {one.location for one in made}
    fills = [one.node for one in moves if not slots.isdisjoint(one.targets) or one.value in values]
    tests = [guard.test for node in fills for guard in script.structure_of(node).guards(node)]
    return {one.node for one in (*made, *_ancestry(script, list(dict.fromkeys(tests))))}


def _ancestry(script: Script, nodes: list[cst.BaseExpression]) -> list[Dependency]:
    known = [one for one in nodes if one in script.owners]
    return [one for node in known for one in script.flow.ancestry(node, script.owners[node])]


def _shuffles(script: Script, made: cst.Call) -> Iterator[cst.Call]:
    """What draws an order, as ``random.shuffle(files)``, of what a data set is made with."""
    module = script.owners[made]
    sources = [one for given in made.args for one in script.flow.ancestry(given.value, module)]
    locations = {one.location for one in sources if one.location is not None}
    function = module.structure.function(made)
    for call in shuffles(script, locations):
        if module.structure.function(call) is function:  # another's may be of another data set
            yield call
    for call in _calls(one.node for one in sources):
        if not script.names(call.func).isdisjoint(PERMUTATIONS):
            yield call


def _calls(nodes: Iterable[cst.CSTNode | None]) -> Iterator[cst.Call]:
    return (node for node in nodes if isinstance(node, cst.Call))
