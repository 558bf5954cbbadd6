"""Numbers, samples or layers follow the order of a set or a folder.

## What it does
Looks for sets, `os.listdir`, `glob` and their like along which a mapping is numbered, or which
become the samples of a data set or the layers of a model.

## Why is this bad
The order of a set of strings differs from process to process, that of a folder from node to node.
The ranks number the classes differently, or split lists that differ, and average gradients that
mean different things. No error says so.

## Example
```python
labels = ["cat", "dog"]
index = {name: i for i, name in enumerate(set(labels))}
```
```python
words = open("text.txt").read().split()
vocabulary = set(words)
word_to_index = {word: i for i, word in enumerate(vocabulary)}
```
```python
words = set()
for line in open("text.txt"):
    words.update(line.split())
index = {}
for word in words:
    index[word] = len(index)
```
```python
def read():
    return list(set(open("text.txt").read()))
chars = read()
encode = dict(zip(chars, range(len(chars))))
```
```python
class Pictures(Dataset):
    def __init__(self, folder):
        self.files = [os.path.join(folder, name) for name in os.listdir(folder)]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.load(self.files[index])

pictures = Pictures("data")
```
```python
heads = nn.ModuleDict({name: nn.Linear(2, 2) for name in {"depth", "normals", "class"}})
```
```python
classes = list({"cat", "dog"})
target = classes.index("dog")
```

## Use instead
```python
labels = ["cat", "dog"]
index = {name: i for i, name in enumerate(sorted(set(labels)))}
```

## Also fine
Membership and counting, sets of numbers, and lists that are sorted later.
```python
labels = ["cat", "dog"]
known = {name for name in set(labels)}
count = len(set(labels))
chosen = set(range(10))
rest = {j: i for i, j in enumerate(chosen)}
```
```python
class Pictures(Dataset):
    def __init__(self, folder):
        self.names = set(os.listdir(folder))
        self.files = os.listdir(folder)
        self.files.sort()

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.load(self.files[index])

pictures = Pictures("data")
for i, name in enumerate(os.listdir("data")):
    print(i, name)
```
```python
classes = [name for name in os.listdir("data")]
classes.sort()
index = {name: i for i, name in enumerate(classes)}
```
```python
files = os.listdir("checkpoints")
steps = [int(name.split(".")[1]) for name in files]
newest = files[steps.index(max(steps))]
```

## Fix safety
Unsafe: classes get other numbers than in an earlier run, whose checkpoints then do not fit.

## When not to follow it
Where all processes are started with one `PYTHONHASHSEED`, and read one folder. The order of a
folder is a possible finding where the project's commands start the script with a launcher and none
asks for several nodes: the ranks of one node read one order.

Where the process that starts the ranks makes the list once and hands it to them.
```python bare
import os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Pictures(Dataset):
    def __init__(self, folder):
        self.files = [os.path.join(folder, name) for name in os.listdir(folder)]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.load(self.files[index])


def run(rank, world_size, pictures):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    for picture in DataLoader(pictures, sampler=DistributedSampler(pictures)):
        print(picture.shape)


def main():
    pictures = Pictures("data")
    torch.multiprocessing.spawn(run, args=(2, pictures), nprocs=2)


if __name__ == "__main__":
    main()
```

## References
https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Confidence, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.rendezvous import meets_on_one_node
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import code_of


@rule(
    "unordered-iteration-defines-state",
    group="data",
    severity=Severity.SILENT,
    applies="single distributed",
    confidence=Confidence.LIKELY,
    fixes="unsafe",
)
def check(script: Script) -> Iterator[Finding]:
    """Collections without an order of their own, where the order counts."""
    ordering = script.ordering
    if not script.strict and script.once(meets_on_one_node):
        ordering = ordering.on_one_machine()
    for node in ordering.counted(script.module):
        # What the ranks are handed by the process that starts them has one order.
        if not script.control.rank_guards(node) and not script.control.is_only_before_spawning(
            node
        ):
            yield Finding(
                node,
                "this order differs between processes or nodes: the ranks number or split things"
                " differently",
                script.replace(
                    node, f"sorted({_bare(node)})", "fix the order", Applicability.UNSAFE
                ),
            )


def _bare(node: cst.BaseExpression) -> str:
    """The code of an argument; a generator keeps no second pair of parentheses."""
    return code_of(node.with_changes(lpar=(), rpar=()))
