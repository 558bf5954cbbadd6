"""Paths that are one process's own, or lead to no file at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.days import clocks_apart
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.targets import targets
from ddpify.understanding.facts import Effect
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK, LOCAL, RANDOM, TAKEN

_APART = ANY_RANK | {RANDOM, LOCAL, *TAKEN}
# Words for a process, as options have them. They only ever silence the rule.
_OWN = re.compile(
    r"(?i)(?<![a-z])(local_)?(rank|shard|gpu|worker|host|proc|pid|node|job|task|chunk)"
    r"(_?(id|idx|index|no|num|name))?(?![a-z])"
)
_DECIMALS = re.compile(r"\.\d+[feg%]$")
# Libraries whose functions give all processes the same path.
_PLAIN = tuple(
    f"{name}."
    for name in "builtins os pathlib posixpath str argparse sys re torch glob yaml json omegaconf"
    " hydra click copy shutil math tempfile addict easydict munch yacs ml_collections toml tomllib"
    " types collections importlib dataclasses configparser permissive_dict box dotmap attrdict"
    " attridict configargparse jsonargparse simple_parsing tyro pyrallis draccus fire absl gin"
    " pydantic attr attrs dotenv ruamel oyaml json5 commentjson dynaconf mmcv mmengine fvcore"
    " numpy torchvision tqdm datetime time logging".split()
)
_SHARED = ("tempfile", "tempfile.gettempdir", "tempfile.gettempprefix", "tempfile.tempdir")


def has_own_path(script: Script, effect: Effect) -> bool:
    """A path of the rank, of the time, in a folder of the process, or no path at all."""
    return _is_buffer(script, effect) or any(
        script.flow.sources(one, effect.site.module) & _APART
        or clocks_apart(script, one)
        or _is_private(script, one)
        or (_may_be_own(script, one) and not script.strict)
        for one in targets(effect)
    )


def _may_be_own(script: Script, target: cst.BaseExpression) -> bool:
    """Whether a path may be one process's: by its words, or out of code that ddpify cannot read."""
    return any(
        (isinstance(one, (cst.Name, cst.Attribute)) and _OWN.search(code_of(one)))
        or (isinstance(one, (cst.Call, cst.Attribute)) and _is_unseen(script, one))
        for one in _words_of(script, target)
    )


def _words_of(script: Script, target: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """The nodes of a path and of all that its names are set to, but not what is only counted.

    ``steps = epochs * len(loader)`` has nothing of the ranks that the loader is made for. What a
    function of the project gets is looked at where its result has something of it.
    """
    values = [target]

    def brings(edge: FlowEdge) -> list[Dependency]:
        if edge.value is None or _is_place(script, edge.value):
            return []
        values.append(edge.value)
        return _not_measured(script, edge.value, edge.source)

    made = script.flow.made_of.of(target, script.owners[target])
    for _ in script.flow.behind(_not_measured(script, target, made), brings):
        while values:
            yield from _put_in(script, values.pop())
    for value in values:
        yield from _put_in(script, value)


def _not_measured(script: Script, node: cst.CSTNode, made: list[Dependency]) -> list[Dependency]:
    measured = _measured(script, node)
    return [one for one in made if one.location not in measured]


def _put_in(script: Script, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """An expression's nodes, without lengths and what the project's functions are passed."""
    if isinstance(node, cst.Call) and "builtins.len" in script.names(node.func):
        return
    if _has_decimals(node):
        return
    yield node
    if isinstance(node, cst.Call) and any(True for _ in called(script.facts, node)):
        return
    for child in node.children:
        yield from _put_in(script, child)


def _measured(script: Script, node: cst.CSTNode) -> set[Location]:
    """What a text shows with decimals: a loss or an accuracy, whatever it was made by."""
    return {
        location
        for part in walk(node)
        if _has_decimals(part)
        for one in walk(part)
        if isinstance(one, (cst.Name, cst.Attribute))
        for location in script.control.locations(one)
    }


def _has_decimals(node: cst.CSTNode) -> bool:
    """``{accuracy:.2f}``: no process has such a number."""
    if not isinstance(node, cst.FormattedStringExpression) or node.format_spec is None:
        return False
    spec = "".join(
        one.value for one in node.format_spec if isinstance(one, cst.FormattedStringText)
    )
    return _DECIMALS.search(spec) is not None


def _is_place(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression wraps a model or moves it to a device: no part of a path."""
    return node in script.facts.device_moves or script.is_wrapped(node)


def _is_unseen(script: Script, node: cst.Call | cst.Attribute) -> bool:
    """Whether a library that is not known gives a part of a path: ``wandb.run.dir``."""
    named = node.func if isinstance(node, cst.Call) else node
    return any(not name.startswith(_PLAIN) for name in script.names(named))


def _is_private(script: Script, target: cst.BaseExpression) -> bool:
    """Whether a path is of the ``tempfile`` module, of what an iterator gives, or leads nowhere."""
    locations = {
        one.location for one in script.flow.ancestry(target, script.owners[target]) if one.location
    }
    made = [edge.value for edge in script.flow.edges_into(locations) if edge.value is not None]
    return any(_is_of_process(script, node) for one in (target, *made) for node in walk(one))


def _is_of_process(script: Script, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Attribute) and node.attr.value in ("next", "__next__"):
        return True
    types = {one.type for one in script.instances(node) if isinstance(one.type, str)}
    return any(
        name in ("os.devnull", "builtins.next")
        or (name.startswith("tempfile.") and name not in _SHARED)
        for name in script.names(node) | types
    )


def _is_buffer(script: Script, effect: Effect) -> bool:
    held = [a.type for one in targets(effect) for a in script.instances(one)]
    return any(isinstance(kind, str) and "BytesIO" in kind for kind in held)
