"""One script as it is understood: the facts, and questions about calls, values and models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix
from ddpify.lint.scripts.owners import Owners
from ddpify.lint.scripts.positions import Positions
from ddpify.lint.scripts.projects import BoundedProject
from ddpify.records import record
from ddpify.source import Source
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Event, Facts, Site
from ddpify.understanding.git_index import folders_in, index_of
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.libraries import runtime_names
from ddpify.understanding.libraries.distributed import (
    COLLECTIVES,
    DDP,
    FSDP,
    FULLY_SHARD,
    WRAPPERS,
    is_wrapper,
    library_names,
)
from ddpify.understanding.libraries.runtime_names import imports_runtime
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.requirements import declaring_file, minimum_torch
from ddpify.understanding.settings import settings_around
from ddpify.understanding.structure import Structure
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.call_graph import called, initialisers
from ddpify.understanding.texts import (
    Texts,
    code_around,
    folders_above,
    launchers_around,
    said_in,
    said_of,
    scripts_beside,
    texts_around,
)
from ddpify.understanding.values import UNKNOWN, Instance, Value

ALL_COLLECTIVES = COLLECTIVES | set(WRAPPERS) | runtime_names.COLLECTIVES


@record
class Wrap:
    """One place that wraps a model: the wrapper object, and what it may hold."""

    site: Site
    wrapper: Instance
    held: tuple[Instance, ...]

    @property
    def in_place(self) -> bool:
        """Whether the model stays the object that it was: ddpify's runtime wraps so."""
        return self.wrapper in self.held and not is_wrapper(self.wrapper)

    @property
    def call(self) -> cst.Call:
        """The call that wraps."""
        assert isinstance(self.site.node, cst.Call)
        return self.site.node


class Understood:
    """A Python file, understood together with the local files that it imports."""

    def __init__(
        self,
        source: Source,
        folder: Path,
        *,
        strict: bool = False,
        most_files: int = 60,
        follow: bool = True,
    ) -> None:
        """Understand a file as a part of the project in ``folder``.

        Raises:
            RecursionError: Calls or imports go too deep.
        """
        self.source = source
        self.strict = strict
        self.project = BoundedProject(source, folder, most_files)
        self.module = self.project.entry
        self.choices = Choices(stated=imports_runtime(source.text))
        self.facts: Facts = interpret(self.project, self.choices, follow=follow, brief=True)
        self.choices.trained |= self.facts.trained
        self.positions = Positions(self.module)

    # ------------------------------------------------------------------ requirements
    @cached_property
    def requirements(self) -> Path | None:
        """The file that says which versions of torch will do."""
        return declaring_file(self.module.path)

    def requires_torch(self, major: int, minor: int) -> bool:
        """Whether the project surely runs with this version of torch or a later one."""
        declared = self.requirements
        return declared is not None and minimum_torch(declared) >= (major, minor)

    @cached_property
    def texts(self) -> Texts:
        """The documents, requirements and shell scripts of the project, by their paths, and what
        the files of the run say beside their code, and scripts beside it of the one that starts it.
        """
        found = texts_around(self.module.path)
        said = [said_in(file.source.text) for file in self.project.files]
        said += [said_of(self.project.entry.path, text) for text in self.beside.values()]
        found.said = tuple(said)
        found.launchers = launchers_around(self.module.path, found)
        return found

    @cached_property
    def settings(self) -> dict[Path, str]:
        """The configuration files of the project, by their paths."""
        return settings_around(self.module.path)

    @property
    def paths(self) -> list[Path]:
        """The files of the run."""
        return [file.path for file in self.project.files]

    @cached_property
    def beside(self) -> dict[Path, str]:
        """The other scripts in the folder of the one that starts the run, by their paths."""
        return scripts_beside(self.project.entry.path)

    @cached_property
    def around(self) -> dict[Path, str] | None:
        """All Python files of the repository, by their paths; None where there are too many."""
        return code_around(self.project.entry.path)

    @cached_property
    def held(self) -> dict[Path, frozenset[str]]:
        """The folders that the repository holds, by the file that says so."""
        *_, root = folders_above(self.project.entry.path)
        index = index_of(root)
        return {index: folders_in(index)} if index.is_file() else {}

    # ------------------------------------------------------------------ structure
    @cached_property
    def structures(self) -> dict[ModuleFile, Structure]:
        """The structure of each of the project's files."""
        return {file: file.structure for file in self.project.files}

    @cached_property
    def structure(self) -> Structure:
        """The structure of the file itself."""
        return self.structures[self.module]

    @cached_property
    def owners(self) -> Owners:
        """The file of each node."""
        return Owners(self.structures)

    def structure_of(self, node: cst.CSTNode) -> Structure:
        """The structure of the file that a node is in."""
        return self.structures[self.owners.get(node, self.module)]

    # ------------------------------------------------------------------ values and calls
    def value(self, node: cst.CSTNode) -> Value:
        """What an expression may stand for; empty where unknown."""
        return self.facts.values.get(node, UNKNOWN)

    def names(self, node: cst.CSTNode) -> set[str]:
        """Qualified names of the library things that an expression may be."""
        return set(library_names(self.facts.values.get(node)))

    @cached_property
    def read_attributes(self) -> frozenset[str]:
        """The names of all attributes that any file reads."""
        return frozenset(
            one.attr.value
            for structure in self.structures.values()
            for one in structure.all(cst.Attribute)
            if not isinstance(structure.parents.get(one), cst.AssignTarget)
        )

    def instances(self, node: cst.CSTNode) -> list[Instance]:
        """The objects that an expression may be."""
        return [a for a in self.value(node).atoms if isinstance(a, Instance)]

    def calls(self, *names: str, everywhere: bool = False) -> list[cst.Call]:
        """Calls of library functions by qualified name, in source order.

        A name that ends with a dot is a prefix. Only this file's, unless ``everywhere``.
        """
        found: dict[cst.Call, None] = {}
        prefixes = tuple(name for name in names if name.endswith("."))
        for name, sites in self.facts.library_calls.items():
            if name in names or name.startswith(prefixes):
                for site in sites.values():
                    if isinstance(site.node, cst.Call) and (
                        everywhere or site.module is self.module
                    ):
                        found[site.node] = None
        return sorted(found, key=lambda n: self.structure_of(n).order.get(n, 0))

    def uses(self, *names: str) -> bool:
        """Whether the project calls any of these library functions."""
        return bool(self.calls(*names, everywhere=True))

    def method_calls(self, *names: str, everywhere: bool = False) -> Iterator[cst.Call]:
        """Calls ``x.name(...)`` of any receiver, in source order."""
        for file, structure in self.structures.items():
            if not everywhere and file is not self.module:
                continue
            found = [call for name in names for call in structure.method_calls.get(name, ())]
            yield from sorted(found, key=structure.order.__getitem__)

    # ------------------------------------------------------------------ models
    @cached_property
    def wraps(self) -> list[Wrap]:
        """All places, in any file, that wrap a model in DDP or FSDP, or in place."""
        found = []
        for model in self.facts.models:
            if is_wrapper(model) and isinstance(model.site, cst.Call):
                held = list(model.arguments.get("module", UNKNOWN).atoms)
                inner = tuple(a for a in held if isinstance(a, Instance))
                found.append(Wrap(Site(model.site, model.module), model, inner))
        in_place = self.facts.runtime.wrapped.items()
        return found + [Wrap(site, model, (model,)) for model, site in in_place]

    @cached_property
    def wrapped(self) -> set[Instance]:
        """The wrapper objects."""
        return {wrap.wrapper for wrap in self.wraps}

    @cached_property
    def averages(self) -> bool:
        """Whether a wrapper averages gradients over the ranks."""
        return bool(self.wraps) or self.uses(FULLY_SHARD)

    def is_ddp(self, node: cst.CSTNode) -> bool:
        """Whether an expression surely is a DDP object."""
        atoms = self.value(node).atoms
        return bool(atoms) and all(isinstance(a, Instance) and a.type == DDP for a in atoms)

    def is_wrapped(self, node: cst.CSTNode) -> bool:
        """Whether an expression may be a DDP or FSDP object."""
        return any(is_wrapper(atom) for atom in self.value(node).atoms)

    def may_be_wrapped(self, node: cst.CSTNode) -> bool:
        """Whether an expression may be a model whose gradients a wrapper averages."""
        return any(atom in self.wrapped for atom in self.value(node).of(Instance))

    @property
    def has_fsdp(self) -> bool:
        """Whether any model is sharded."""
        return self.uses(FSDP, FULLY_SHARD, "torch.distributed.fsdp.") or any(
            wrap.wrapper.type == FSDP for wrap in self.wraps
        )

    def events(self, model: Instance, *kinds: str) -> list[Event]:
        """What happens to a model, in the order of the run."""
        return [e for e in self.facts.events.get(model, []) if not kinds or e.kind in kinds]

    # ------------------------------------------------------------------ what a block does
    def reached(self, node: cst.CSTNode, depth: int = 6) -> Iterator[cst.CSTNode]:
        """All nodes in a node, and in the project's functions that it calls."""
        seen: set[cst.CSTNode] = set()
        todo = [(node, depth)]
        while todo:
            one, left = todo.pop()
            for inner in self.structure_of(one).below(one):
                yield inner
                if not isinstance(inner, cst.Call) or left == 0:
                    continue
                functions = [*called(self.facts, inner), *initialisers(self.facts, inner)]
                for function in functions:
                    if function.node not in seen and function.module in self.structures:
                        seen.add(function.node)
                        todo.append((function.node, left - 1))

    def trains(self, node: cst.CSTNode) -> bool:
        """Whether a block reaches ``backward()``."""
        return any(one in self.facts.backwards for one in self.reached(node))

    def collectives(self, node: cst.CSTNode) -> list[tuple[str, cst.Call]]:
        """The collectives that a block runs, by name, also in the functions that it calls."""
        found: list[tuple[str, cst.Call]] = []
        for one in self.reached(node):
            if isinstance(one, cst.Call):
                names = self.names(one.func) & ALL_COLLECTIVES
                found += [(name, one) for name in sorted(names)]
        return found

    # ------------------------------------------------------------------ small help for rules
    def code(self, node: cst.CSTNode, most: int = 60) -> str:
        """The source of a node on one line, shortened."""
        text = " ".join(code_of(node).split())
        return text if len(text) <= most else text[: most - 3] + "..."

    def replace(
        self,
        node: cst.CSTNode,
        text: str,
        title: str,
        applicability: Applicability = Applicability.SAFE,
    ) -> Fix:
        """A fix that puts other code in the place of a node."""
        start, end = self.positions.offsets(node)
        return Fix(title, (Edit(start, end, text),), applicability)

    def arguments(self, call: cst.Call, *names: str) -> Iterable[cst.Arg]:
        """The keyword arguments of a call with these names."""
        return [a for a in call.args if a.keyword is not None and a.keyword.value in names]
