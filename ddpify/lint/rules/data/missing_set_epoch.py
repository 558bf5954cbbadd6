"""A DistributedSampler is not told the epoch, so every epoch has the same order.

## What it does
Looks for a shuffling `DistributedSampler` whose loader is iterated once per round of an outer
loop, when nothing calls `set_epoch`, or only with a number that stays the same in that loop.

## Why is this bad
The sampler shuffles with the seed plus the epoch. Without `set_epoch` the epoch stays 0: the
batches are the same in every epoch, which one-GPU training with `shuffle=True` never has.

## Example
```python
for epoch in range(epochs):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

```python
for epoch in range(epochs):
    sampler.set_epoch(epochs)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

## Use instead
```python
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
```

## Also fine
```python
for epoch in range(epochs):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        criterion(model(x), y).backward()
```
```python
ordered = DistributedSampler(dataset, shuffle=False)
fixed = DataLoader(dataset, 32, sampler=ordered)
for epoch in range(epochs):
    for x, y in fixed:
        criterion(model(x), y).backward()
```
```python
def train_one_epoch(epoch, batches):
    batches.sampler.set_epoch(epoch)
    for x, y in batches:
        criterion(model(x), y).backward()
for epoch in range(epochs):
    train_one_epoch(epoch, loader)
```

## Fix safety
Offered where the sampler has a name in the function of the epoch loop. It changes the order of
the data, which is its purpose.

## References
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.certainty import is_kept_by_rank
from ddpify.lint.diagnostics import Confidence, Fix, Severity
from ddpify.lint.registry import Finding, rule
from ddpify.lint.scripts.epochs import Loop, rounds, samplers_of
from ddpify.lint.scripts.one_process import never_runs
from ddpify.lint.scripts.own_samplers import orders_by_base
from ddpify.lint.scripts.repairs import at_head_of
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import is_distributed_sampler
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.taint.call_graph import initialisers
from ddpify.understanding.taint.sources import draws, name_of
from ddpify.understanding.values import UNKNOWN, Class, Instance, Value

_SHUFFLING = frozenset({"randperm", "shuffle", "permutation"})
_LOADER = "torch.utils.data.DataLoader"


@rule(
    "missing-set-epoch", group="data", severity=Severity.SILENT, applies="distributed", fixes="safe"
)
def check(script: Script) -> Iterator[Finding]:
    """Shuffling samplers that are iterated in several epochs and never told which."""
    if not script.updates:
        return
    yield from _told_the_same(script)
    entered = script.module is script.project.entry
    shuffling = [one for one in _shuffling(script) if entered or one.module is script.module]
    told = [script.value(node) for node in _told(script)] if shuffling else []
    for sampler in shuffling:
        if any(sampler in held.atoms or not any(held.of(Instance)) for held in told):
            continue  # told, or something that is not seen is
        found = rounds(script, sampler)
        if found is None or _needs_no_epoch(script, sampler, *found):
            continue
        inner, outer = found
        if not script.strict and _is_for_another(script, sampler, inner, told):
            continue
        node = _place(script, sampler, inner)
        if node is not None:
            yield Finding(
                node,
                "every epoch has the same order: set_epoch() is not called on this sampler",
                _fix(script, sampler, outer) if isinstance(inner, cst.For) else None,
                confidence=Confidence.CERTAIN if _shuffles(script, sampler) else Confidence.LIKELY,
            )


def _needs_no_epoch(
    script: Script, sampler: Instance, inner: cst.For | cst.Call, outer: Loop
) -> bool:
    """Whether the order changes without it, does not matter, or is never asked for."""
    if _is_seeded_anew(script, sampler) or _makes_itself_known(sampler):
        return True
    if not script.strict and never_runs(script.control, sampler.site):
        return True
    if _has_samples_of_its_own(script, sampler, outer):
        return True
    return not _shuffles(script, sampler) and not script.trains(inner)


def _place(script: Script, sampler: Instance, loop: cst.CSTNode) -> cst.CSTNode | None:
    """Where it is said, once for all files of a run: where it starts, or at the sampler."""
    entry, module = script.project.entry, script.module
    own = module is entry or entry not in (sampler.module, script.owners.get(loop))
    if sampler.module is module:
        return sampler.site if own else None
    return loop if module is entry and script.owners.get(loop) is module else None


def _told_the_same(script: Script) -> Iterator[Finding]:
    """Calls of ``set_epoch`` in the loop of the epochs with what none of its rounds sets."""
    shuffling = _shuffling(script)
    for call in script.method_calls("set_epoch"):
        told = script.value(cst.ensure_type(call.func, cst.Attribute).value).atoms
        for sampler in (one for one in shuffling if told == (one,)):
            found = rounds(script, sampler)
            if found is not None and _stays(script, call, found[1]):
                message = "every epoch has the same order: this number is the same in each"
                yield Finding(call, message)


def _stays(script: Script, call: cst.Call, outer: Loop) -> bool:
    """Whether a call is in a loop, and its argument is set outside of it alone."""
    if outer not in script.control.around(call) or len(call.args) != 1:
        return False
    given = call.args[0].value
    if isinstance(given, cst.Integer):
        return True
    edges = script.flow.edges_into(script.flow.locations(given, script.module))
    return (
        isinstance(given, cst.Name)
        and bool(edges)
        and all(
            one.node is not outer and outer not in script.control.around(one.node) for one in edges
        )
    )


def _told(script: Script) -> Iterator[cst.BaseExpression]:
    """What is told the epoch: ``x.set_epoch(...)``, ``x.epoch = ...``, ``getattr(x, ...)``."""
    for call in script.method_calls("set_epoch", everywhere=True):
        if is_kept_by_rank(script.control, call):
            continue  # the others have the order of the first epoch for ever
        if _is_of_another_program(script, call):
            continue
        yield cst.ensure_type(call.func, cst.Attribute).value
    for structure in script.structures.values():
        for target in structure.all(cst.AssignTarget, cst.AugAssign):
            changed = target.target
            if not isinstance(changed, cst.Attribute) or changed.attr.value != "epoch":
                continue
            if any(map(is_distributed_sampler, script.value(changed.value).atoms)):
                yield changed.value
    for call in script.calls("builtins.getattr", everywhere=True):
        given = [script.value(one.value).constant() for one in call.args]
        if "set_epoch" in given:
            yield call.args[0].value


def _is_of_another_program(script: Script, call: cst.Call) -> bool:
    """Whether a call is in a function of another file that nothing in this run calls."""
    structure = script.structure_of(call)
    function = structure.function(call)
    return (
        function is not None
        and script.owners.get(call) is not script.project.entry
        and structure.class_of(function) is None
        and structure.function(function) is None
        and not script.control.callers(function)
        and function not in script.control.spawned
    )


def _is_for_another(
    script: Script, sampler: Instance, begun: cst.For | cst.Call, told: list[Value]
) -> bool:
    """Whether a loop goes over several loaders, of which it may train with another one only:
    with one that is told the epoch, or with the first.
    """
    loaders = script.loaders_in(begun.iter if isinstance(begun, cst.For) else begun)
    held = [[*samplers_of(one)] for one in loaders]
    others = [atom for atoms in held if sampler not in atoms for atom in atoms]
    first = sampler in held[0] if held else True
    return not first or any(atom in known.atoms for atom in others for known in told)


def _is_seeded_anew(script: Script, sampler: Instance) -> bool:
    """Whether the sampler is made in each epoch, with a seed that is no constant."""
    seed = argument(sampler.site, "seed", 4) if isinstance(sampler.site, cst.Call) else None
    if seed is None or isinstance(seed.value, cst.Integer):
        return False
    around = script.control.around(sampler.site)
    locations = script.flow.locations(seed.value, sampler.module)
    changing = {
        location
        for loop in around
        for edge in script.flow.edges_at(loop)
        for location in edge.targets
    }
    return bool(locations & script.flow.derived(changing))


def _has_samples_of_its_own(script: Script, sampler: Instance, outer: Loop) -> bool:
    """Whether the sampler is made in each epoch, of a data set that is made there, too: at random,
    where a function makes it.
    """
    if not isinstance(sampler.site, cst.Call) or outer not in script.control.around(sampler.site):
        return False
    structure = script.structure_of(sampler.site)
    function = structure.function(sampler.site)
    if outer not in structure.loops(sampler.site) and not _draws(script, function):
        return False
    given = argument(sampler.site, "dataset", 0)
    locations = script.flow.locations(given.value, sampler.module) if given is not None else set()
    return any(
        not edge.passes
        and outer in script.control.around(edge.node)
        and not _is_the_same_again(script, edge.value, outer)
        for edge in script.flow.edges_into(locations)
    )


def _is_the_same_again(script: Script, made: cst.CSTNode | None, outer: Loop) -> bool:
    """``data = Images(folder)``: a data set that is made of nothing which the rounds of a loop set,
    and draws nothing as it is made.
    """
    if not isinstance(made, cst.Call) or made not in script.owners:
        return False
    read = script.flow.locations(made, script.owners[made])
    set_here = [
        edge
        for edge in script.flow.edges_into(read)
        if edge.node is outer or outer in script.control.around(edge.node)
    ]
    called = [one.func for one in walk(made) if isinstance(one, cst.Call)]
    instances = script.instances(made)
    return (
        bool(instances)
        and all(one.site is made and _is_known(one) for one in instances)
        and not set_here
        and not any(draws(name) for one in called for name in script.names(one))
        and not any(
            _draws(script, one.node)
            for one in initialisers(script.facts, made)
            if isinstance(one.node, cst.FunctionDef)
        )
    )


def _is_known(made: Instance) -> bool:
    """Whether the code of a class is in sight, or is PyTorch's."""
    return isinstance(made.type, Class) or made.type.startswith(("torch.", "torchvision."))


def _draws(script: Script, function: cst.FunctionDef | None) -> bool:
    return function is not None and any(
        isinstance(one, cst.Call) and any(map(draws, script.names(one.func)))
        for one in script.reached(function)
    )


def _shuffling(script: Script) -> list[Instance]:
    found: dict[Instance, None] = {}
    for loader in script.facts.loaders:
        held = samplers_of(loader)
        found |= dict.fromkeys(
            one for one in held if _shuffles(script, one) or _may_shuffle(script, one)
        )
    return list(found)


def _shuffles(script: Script, sampler: Instance) -> bool:
    """Whether the order is random, as far as the arguments say, or the code of the project."""
    if isinstance(sampler.type, Class) and "__iter__" in sampler.type.scope.names:
        calls = (one for one in walk(sampler.type.node.body) if isinstance(one, cst.Call))
        shuffling = [one for one in calls if name_of(one.func).rsplit(".", 1)[-1] in _SHUFFLING]
        if any(not _is_switched_off(script, sampler, one) for one in shuffling):
            return True
        if shuffling or not orders_by_base(sampler):
            return False
    given = [
        sampler.arguments[name] for name in ("shuffle", "3", "**") if name in sampler.arguments
    ]
    return all(held.constant() is True for held in given)


def _is_switched_off(script: Script, sampler: Instance, node: cst.CSTNode) -> bool:
    """Whether ``if self.shuffle:`` keeps a node from running in an object that was told not to."""
    for guard in script.structure_of(node).guards(node):
        test, positive = guard.test, guard.positive
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test, positive = test.expression, not positive
        if isinstance(test, cst.Attribute) and code_of(test.value) == "self":
            held = sampler.attribute(test.attr.value)
            if held is not None and held.constant() is (not positive):
                return True
    return False


def _may_shuffle(script: Script, sampler: Instance) -> bool:
    """``shuffle=part == "train"``: a question about the part of the data, which a training has
    answered with yes, as a rule.
    """
    site = sampler.site
    given = argument(site, "shuffle", 3) if isinstance(site, cst.Call) else None
    if given is None or sampler.arguments.get("shuffle", UNKNOWN).constant() is not ...:
        return False
    asked = [given.value]
    if isinstance(given.value, cst.Name):
        edges = script.flow.edges_into(script.control.locations(given.value))
        asked = [edge.value for edge in edges if edge.value is not None]
    return any(isinstance(one, (cst.Comparison, cst.UnaryOperation)) for one in asked)


def _makes_itself_known(sampler: Instance) -> bool:
    """A class of the project may keep the epoch by itself: not one that is to be told."""
    if not isinstance(sampler.type, Class) or "__iter__" not in sampler.type.scope.names:
        return False
    told = "set_epoch" in sampler.type.scope.names or orders_by_base(sampler)
    return not told or any(
        isinstance(one, (cst.Assign, cst.AugAssign)) and "epoch" in code_of(one).split("=")[0]
        for method in walk(sampler.type.node.body)
        if isinstance(method, cst.FunctionDef) and method.name.value == "__iter__"
        for one in walk(method.body)
    )


def _fix(script: Script, sampler: Instance, loop: Loop) -> Fix | None:
    name = _name_of(script, sampler, loop)
    if loop in script.control.around(sampler.site):
        return None  # it is not there yet at the head of the loop
    if name is None or not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Name):
        return None
    if script.owners.get(loop) is not script.module or not _counts(script, loop):
        return None
    edit = at_head_of(script, loop.body, f"{name}.set_epoch({loop.target.value})")
    return Fix(f"call {name}.set_epoch() in each epoch", (edit,)) if edit is not None else None


def _counts(script: Script, loop: cst.For) -> bool:
    return isinstance(loop.iter, cst.Call) and "builtins.range" in script.names(loop.iter.func)


def _name_of(script: Script, sampler: Instance, loop: Loop) -> str | None:
    """What surely is this sampler, or its loader's, by a name bound in the function of the loop."""
    structure = script.structure
    for assign in structure.all(cst.Assign):
        target, part = assign.targets[0].target, _part(script, assign.value, sampler)
        if not isinstance(target, cst.Name) or part is None:
            continue
        if structure.function(assign) is structure.function(loop) and not script.control.guards(
            assign
        ):
            return f"{target.value}{part}"
    return None


def _part(script: Script, made: cst.BaseExpression, sampler: Instance) -> str | None:
    """Where what is made has the sampler: nowhere else, or as an attribute of its loader."""
    if made is sampler.site:
        return ""
    if not isinstance(made, cst.Call) or _LOADER not in script.names(made.func):
        return None
    given = argument(made, "sampler", 3)
    return ".sampler" if given is not None and given.value is sampler.site else None
