"""Each rank splits the data by its own random numbers.

## What it does
Looks for `random_split` without a generator, `train_test_split` without `random_state` and the
like, when no seed makes all ranks draw the same numbers.

## Why is this bad
What one rank validates on, another trains on. The validation score is too good, and no error
tells.

## Example
```python
train, val = random_split(dataset, [80, 20])
```

## Use instead
```python
train, val = random_split(dataset, [80, 20], generator=torch.Generator().manual_seed(0))
```

## Also fine
```python
torch.manual_seed(0)
train, val = random_split(dataset, [80, 20])
```

## Fix safety
Unsafe: the split becomes another one than that of earlier runs, and the same in every run.

## References
https://github.com/Lightning-AI/pytorch-lightning/issues/7728
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Fix, Severity
from ddpify.lint.registry import SINGLE, Finding, rule
from ddpify.lint.repairs import add_argument, spelled
from ddpify.lint.script import Script, argument, spreads
from ddpify.understanding.origins import ANY_RANK

_SPLITS = {
    "torch.utils.data.random_split": ("generator", 2),
    "torch.utils.data.dataset.random_split": ("generator", 2),
    "sklearn.model_selection.train_test_split": ("random_state", None),
}
_SEEDS = {
    "torch": ("torch.manual_seed", "torch.random.manual_seed"),
    "sklearn": ("numpy.random.seed",),
}
_SEED_ALL = ("transformers.set_seed", "lightning.", "pytorch_lightning.")


@rule(
    "per-rank-dataset-split", group="data", severity=Severity.SILENT, applies="single distributed"
)
def check(script: Script) -> Iterator[Finding]:
    """Random splits that ranks need not agree on."""
    for name, (keyword, position) in _SPLITS.items():
        for call in script.calls(name):
            if argument(call, keyword, position) is not None or spreads(call):
                continue
            if _shuffle_is_off(call) or script.rank_guards(call) or _agreed(script, name):
                continue
            text = (
                "each rank splits the data by its own random numbers: they validate on what others"
                " train on"
            )
            if script.kind == SINGLE:
                text = "all ranks must draw the same split"
            yield Finding(call, text, _fix(script, call, keyword))


def _shuffle_is_off(call: cst.Call) -> bool:
    given = argument(call, "shuffle")
    return given is not None and isinstance(given.value, cst.Name) and given.value.value == "False"


def _agreed(script: Script, name: str) -> bool:
    """Whether a seed that does not depend on the rank is set anywhere."""
    calls = script.calls(*_SEEDS[name.split(".")[0]], *_SEED_ALL, everywhere=True)
    arguments = [a.value for call in calls for a in call.args]
    return any(not script.flow.origins(one, script.owners[one]) & ANY_RANK for one in arguments)


def _fix(script: Script, call: cst.Call, keyword: str) -> Fix | None:
    torch = spelled(script, "torch")
    if keyword == "generator" and torch is None:
        return None
    code = (
        f"generator={torch}.Generator().manual_seed(0)"
        if keyword == "generator"
        else f"{keyword}=0"
    )
    return add_argument(
        script, call, code, "draw the same split on every rank", Applicability.UNSAFE
    )
