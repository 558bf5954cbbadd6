"""All ranks draw the same random numbers.

## What it does
Looks for seeds that are the same on every rank, in scripts whose training draws for each sample:
dropout, noise, random masks, the crops of torchvision. Of several seeds the last one counts.

## Why is this bad
Sample 0 of every rank gets the same dropout mask and the same noise. The global batch has N times
fewer independent draws than it seems, and its gradient is noisier than one process would have.

## Example
```python
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(10, 10), nn.Dropout(0.5), nn.Linear(10, 2)).to(device))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)

seed_all(42)
for x, y in loader:
    x = x + 0.1 * torch.randn_like(x)
    criterion(model(x), y).backward()
    optimizer.step()
```

## Use instead
```python
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 10), nn.Dropout(0.5), nn.Linear(10, 2)).to(device)
model = DDP(net, device_ids=[local_rank])
torch.manual_seed(rank)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## Also fine
Training that draws nothing, and no seed at all.
```python
torch.manual_seed(0)
start = torch.randn(3)
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```
```python
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(10, 10), nn.Dropout(0.0), nn.Linear(10, 2)).to(device))
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
```

## When not to follow it
Where ranks work on parts of one model, as in tensor parallelism.

Where a function of another file gives the seed, which may well be made from the rank.
```python
def training_loop(rank, seed):
    torch.manual_seed(seed * 8 + rank)
    model = DDP(nn.Sequential(nn.Linear(10, 10), nn.Dropout(0.5), nn.Linear(10, 2)).to(device))
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

## References
https://docs.pytorch.org/docs/stable/notes/randomness.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.certainty import runs_in_any_case
from ddpify.lint.diagnostics import Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.forward_use import idle_layers
from ddpify.lint.scripts.one_process import never_runs
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.seeds import SEEDS, Seeding, seedings, seeds
from ddpify.lint.scripts.unreached import is_behind_an_end
from ddpify.understanding.model_structure import layers
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import parameters
from ddpify.understanding.taint.sources import draws
from ddpify.understanding.values import UNKNOWN, Instance

_DROPOUT = ("torch.nn.Dropout", "torch.nn.AlphaDropout", "torch.nn.FeatureAlphaDropout")
# Layers with dropout inside: the place of their argument "dropout", and what it is without one.
_WITH_DROPOUT = {
    "torch.nn.MultiheadAttention": ("2", 0.0),
    "torch.nn.TransformerEncoderLayer": ("3", 0.1),
    "torch.nn.TransformerDecoderLayer": ("3", 0.1),
    "torch.nn.Transformer": ("5", 0.1),
    "torch.nn.LSTM": ("5", 0.0),
    "torch.nn.GRU": ("5", 0.0),
    "torch.nn.RNN": ("5", 0.0),
}
_TRANSFORMS = ("torchvision.transforms.", "torchvision.transforms.v2.")
_RANDOM = ("Random", "ColorJitter", "AutoAugment", "RandAugment", "TrivialAugment", "AugMix")
_FUNCTIONS = ("torch.nn.functional.dropout", "torch.nn.functional.gumbel_softmax")


@rule(
    "same-seed-everywhere",
    group="rng",
    severity=Severity.SILENT,
    applies="converted distributed",
    confidence=Confidence.LIKELY,
)
def check(script: Script) -> Iterator[Finding]:
    """Seeds of PyTorch's generators that no rank changes, before training that draws."""
    if script.has_runtime:
        return  # what draws for a rank's own samples has a stream of its own
    found = [
        one
        for one in seedings(script, "torch", "cuda")
        if not script.control.is_only_before_spawning(one.place)
    ]
    own = [
        one.place for one in _lasting(script, found) if script.owners[one.place] is script.module
    ]
    if not own or not script.wraps or not _may_train(script):
        return
    if any(_is_given_elsewhere(script, one) for one in seeds(script, "torch", "cuda")):
        return
    what, surely = _drawing(script)
    if what not in (None, "dropout") and not script.calls(*SEEDS["torch"], everywhere=True):
        return  # the rest is drawn on the CPU as a rule, which CUDA's seeds leave alone
    if what is not None:
        text = f"all ranks have this seed: {what} is the same on each of them"
        anyway = any(runs_in_any_case(script.control, one) for one in own)
        sure = Confidence.LIKELY if anyway and surely else Confidence.POSSIBLE
        yield Finding(own[0], text, confidence=sure)


def _may_train(script: Script) -> bool:
    """Whether a run gets to any training, as far as that is seen."""
    trained = script.facts.backwards or script.method_calls("backward", everywhere=True)
    return not trained or not all(is_behind_an_end(script.control, one) for one in trained)


def _lasting(script: Script, found: list[Seeding]) -> list[Seeding]:
    """The seeds that are the same on all ranks: those alone that surely follow any other seed."""
    same = [one for one in found if not one.differs]
    apart = [one for one in found if one.differs]
    return [one for one in same if all(_replaces(script, one.place, x.place) for x in apart)]


def _replaces(script: Script, later: cst.Call, earlier: cst.Call) -> bool:
    """Whether a seed surely comes after another one, and before a training."""
    structure = script.structure_of(later)
    if structure is not script.structure_of(earlier):
        return False
    function, order = structure.function(later), structure.order
    if function is not structure.function(earlier) or order[later] < order[earlier]:
        return False
    known = {(one.statement, one.positive) for one in script.control.guards(earlier)}
    if not {(one.statement, one.positive) for one in script.control.guards(later)} <= known:
        return False
    return any(
        order[one] > order[later] and structure.function(one) is function and script.trains(one)
        for one in structure.all(cst.Call)
    )


def _is_given_elsewhere(script: Script, seed: cst.Call) -> bool:
    """Whether a seed is made of a parameter that another file gives: it may be the rank."""
    function = script.structure_of(seed).function(seed)
    if function is None or function in script.control.spawned or script.control.callers(function):
        return False
    names = {one.name.value for one in parameters(function)}
    read = {one.value for given in seed.args for one in walk(given) if isinstance(one, cst.Name)}
    return bool(names & read)


def _drawing(script: Script) -> tuple[str | None, bool]:
    """What the training draws for its samples, and whether it does so whichever of several models
    is wrapped; None where nothing is seen.
    """
    wrapped = [wrap.held for wrap in script.wraps]
    if any(held and all(_has_dropout(script, one) for one in held) for held in wrapped):
        return "dropout", True
    drawn = _drawing_in_code(script)
    if drawn is None and any(_has_dropout(script, one) for held in wrapped for one in held):
        return "dropout", False
    return drawn, True


def _has_dropout(script: Script, model: Instance) -> bool:
    """Whether a model has dropout in a layer that something reads."""
    idle = {one for part in layers(model) for one in idle_layers(script, part)}
    return any(_drops(one) for one in layers(model) if one not in idle)


def _drawing_in_code(script: Script) -> str | None:
    """What functions draw in the training's loops, or transforms for its samples."""
    for node in script.facts.backwards:
        loops = script.structure_of(node).loops(node)
        for one in script.reached(loops[0]) if loops else ():
            if isinstance(one, cst.Call) and _is_drawn(script, one):
                names = script.names(one.func)
                if any(name.startswith(_FUNCTIONS) for name in names):
                    return "dropout"
                if any(name.startswith("torch.") and draws(name) for name in names):
                    return f"what {script.code(one.func)}() draws"
    return _augmenting(script) if script.training_loaders else None


def _is_drawn(script: Script, call: cst.Call) -> bool:
    """Whether a draw is of the training: no initialiser, which makes parameters that ranks must
    share, and no condition such as ``share > 0`` of a share that is 0 in all calls, is around it.
    """
    function = script.structure_of(call).function(call)
    if isinstance(function, cst.FunctionDef) and function.name.value == "__init__":
        return False
    return script.strict or not never_runs(script.control, call)


def _augmenting(script: Script) -> str | None:
    """What changes training samples at random: workers are seeded from PyTorch's generator, too."""
    for call in script.calls(*_TRANSFORMS, everywhere=True):
        if any(name.rsplit(".", 1)[-1].startswith(_RANDOM) for name in script.names(call.func)):
            return f"what {script.code(call.func)}() draws for the n-th sample"
    return None


def _drops(layer: Instance) -> bool:
    kind = layer.type if isinstance(layer.type, str) else ""
    if kind.startswith(_DROPOUT):
        share = layer.arguments.get("p", layer.arguments.get("0", UNKNOWN)).constant()
        return share is ... or share != 0
    if kind not in _WITH_DROPOUT:
        return False
    place, share = _WITH_DROPOUT[kind]
    given = layer.arguments.get("dropout", layer.arguments.get(place))
    return (share if given is None else given.constant()) != 0
