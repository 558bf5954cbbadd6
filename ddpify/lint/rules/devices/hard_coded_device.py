"""One certain GPU is named in code that all ranks run.

## What it does
Looks for `cuda:0`, `.cuda(0)`, `.to(gpus[0])`, `set_device(0)` and `device_ids=[0]`, for a bare
`"cuda"` in a script that never says which GPU is the rank's own, and for a wrapped model that
`device_map="auto"` has spread over all GPUs.

## Why is this bad
All ranks of a node share the first GPU: it runs out of memory, or NCCL refuses two ranks on one
GPU, while the others idle.

## Example
```python
net2 = Net().to("cuda:0")
```

```python
from transformers import AutoModel
spread = DDP(AutoModel.from_pretrained("bert-base-uncased", device_map="auto"))
```
```python
parser = argparse.ArgumentParser()
parser.add_argument("--gpus", type=int, nargs="+", default=[0, 1])
args = parser.parse_args()
net2 = Net().to(f"cuda:{args.gpus[0]}")
```

## Use instead
```python
net2 = Net().to(device)
```
```python
from transformers import AutoModel
whole = DDP(AutoModel.from_pretrained("bert-base-uncased", device_map={"": local_rank}))
```

## Also fine
Code that one rank runs, and a bare `cuda` after `set_device`.
```python
if rank == 0:
    probe = torch.zeros(1, device="cuda:0")
batch = torch.zeros(1).to("cuda")
```
```python
gpus = [0, 1, 2, 3]
net2 = Net().to(gpus[local_rank])
```

## Fix safety
Safe with ddpify's runtime, which knows the rank's device. Unsafe elsewhere: the number comes from
LOCAL_RANK, which torchrun sets.

## References
https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.literal_devices import SET_DEVICE, literal_devices
from ddpify.lint.scripts.one_number import is_set_to_a_number
from ddpify.lint.scripts.rank_gpus import gpu_of_the_rank
from ddpify.lint.scripts.rendezvous import may_be_alone_on_its_node
from ddpify.lint.scripts.repairs import runtime
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.shared_devices import harms_nobody, number, origins
from ddpify.lint.scripts.spread_models import spread_models
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import (
    DEVICES,
    LOCAL_RANK,
    RANK,
    SPAWNED,
)
from ddpify.understanding.values import Const, Device

_CLUSTERS = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


@rule(
    "hard-coded-device",
    group="device",
    severity=Severity.CRASH,
    applies="converted distributed",
    fixes="safe unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Literal devices, in every form that names one."""
    several = script.has_runtime or _has_several_ranks_a_node(script)
    trains = script.uses(INIT_GROUP) and script.averages and not _may_have_its_gpu_alone(script)
    if not (script.strict or several or trains):
        return  # a tool that can join a group, and may have one process on each node
    likely = Confidence.POSSIBLE if may_be_alone_on_its_node(script) else Confidence.LIKELY
    sure = Confidence.CERTAIN if several else likely
    for given in spread_models(script):
        message = f"{script.code(given)} spreads the model over all GPUs in each rank"
        yield Finding(given, f"{message}: the wrapper refuses that, or runs out of memory")
    unchosen = False
    for node in _shared(script):
        chosen = script.has_runtime or not _is_current(script, node)
        if chosen or not unchosen:  # one call of set_device() fixes all of them
            text = _message(script, node, chosen)
            known = min(sure, _surety_of_text(script, node))
            yield Finding(node, text, _fix(script, node), confidence=known)
        unchosen = unchosen or not chosen


def _surety_of_text(script: Script, node: cst.CSTNode) -> Confidence:
    """A configuration that is read from a file can name another device."""
    given = node.args[-1].value if isinstance(node, cst.Call) and node.args else None
    if not isinstance(given, (cst.Attribute, cst.Subscript)):
        return Confidence.CERTAIN
    seen = any(True for _ in script.value(given).of(Const, Device))
    return Confidence.CERTAIN if seen else Confidence.LIKELY


def _shared(script: Script) -> Iterator[cst.CSTNode]:
    """The places that name a GPU which all ranks of a node then share, of nested ones the outer."""
    seen: set[cst.CSTNode] = set()
    literals = sorted(literal_devices(script), key=script.structure.order.__getitem__)
    spread = _with_layers_on_several(script, literals)
    for node in literals:
        if node in seen or any(above in seen for above in script.structure.up(node)):
            continue
        if not harms_nobody(script, node) and _around(script, node) not in spread:
            seen.add(node)
            yield node


def _is_current(script: Script, node: cst.CSTNode) -> bool:
    """Whether a device is named without its number: the GPU that the process has chosen."""
    if isinstance(node, cst.Integer):
        return False
    if any(isinstance(one, cst.Name) and is_set_to_a_number(script, one) for one in walk(node)):
        return False
    return not number(script, node) or not re.search(r"\d", script.code(node, 200))


def _message(script: Script, node: cst.CSTNode, chosen: bool) -> str:
    if chosen:
        what = "is the same GPU for every rank of a node: they share it, and NCCL refuses that"
    else:
        what = "is GPU 0 on every rank: nothing calls torch.cuda.set_device() with the local rank"
    return f"{script.code(node)} {what}"


def _has_several_ranks_a_node(script: Script) -> bool:
    """Whether the project starts a group and counts the ranks of one node.

    Others may have a process a node, which has GPU 0 for itself.
    """
    return script.uses(INIT_GROUP) and any(
        labels & {LOCAL_RANK, SPAWNED} or {RANK, DEVICES} <= labels
        for labels in (*script.flow.labels.values(), *_chosen(script))
    )


def _may_have_its_gpu_alone(script: Script) -> bool:
    """Whether a launcher of clusters starts the ranks, which can show each process one GPU."""
    named = (one for name in _CLUSTERS for one in script.mentions.get(name, ()))
    return any(isinstance(one, cst.SimpleString) for one in named)


def _chosen(script: Script) -> Iterator[set[str]]:
    """What the numbers of GPUs that the project chooses are made of."""
    for call in script.calls(*SET_DEVICE, "torch.device", everywhere=True):
        for given in call.args:
            yield origins(script, given.value)


def _fix(script: Script, node: cst.CSTNode) -> Fix | None:
    """The device of the rank."""
    dd = runtime(script)
    if dd is None:
        return gpu_of_the_rank(script, node) if isinstance(node, (cst.Call, cst.Arg)) else None
    name = f"{dd}.device()"
    if isinstance(node, cst.Arg):
        return script.replace(node.value, name, f"use {name}")
    if not isinstance(node, cst.Call):
        return None
    if "torch.device" in script.names(node.func):
        return script.replace(node, name, f"use {name}")
    if not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
        return None
    if node.func.attr.value == "cuda":
        return script.replace(node, f"{code_of(node.func.value)}.to({name})", f"use {name}")
    if node.func.attr.value == "to":
        return script.replace(node.args[0].value, name, f"use {name}")
    return None


def _with_layers_on_several(script: Script, literals: list[cst.CSTNode]) -> set[cst.CSTNode]:
    """Classes and functions that name several GPUs: a model whose layers are spread over them."""
    numbers: dict[cst.CSTNode, set[str]] = {}
    for node in literals:
        around = _around(script, node)
        if around is not None:
            numbers.setdefault(around, set()).update(number(script, node))
    return {around for around, found in numbers.items() if len(found) > 1}


def _around(script: Script, node: cst.CSTNode) -> cst.CSTNode | None:
    """The outermost class or function around a node."""
    above = [x for x in script.structure.up(node) if isinstance(x, (cst.ClassDef, cst.FunctionDef))]
    return above[-1] if above else None
