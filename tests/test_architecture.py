"""How the files of the package hang together."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = {"ddpify": ROOT / "ddpify", "ddpify.codemods": ROOT / "codemods"}

# The folders of the understanding, each of which imports from those before it alone.
UNDERSTANDING = [
    "values",
    "facts",
    "run_state",
    "operators",
    "shapes",
    "batching",
    "arithmetic",
    "libraries",
    "taint",
    "language",
]
# A tensor names the loaders of its rows, and these are objects, which hold values: for types alone.
ROUND = ("ddpify.understanding.values.tensors", "ddpify.understanding.values.objects")


def modules() -> dict[str, Path]:
    """All modules by name."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The package's modules that a file imports anywhere in it, also for its types alone."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for one in names:
            full = f"{base}{one.name}"
            yield from (name for name in (full, full.rpartition(".")[0]) if name in known)


def packages(graph: dict[str, set[str]], around: str) -> dict[str, set[str]]:
    """The same graph with a package of those in one, or a file beside them, for each file there."""
    found: dict[str, set[str]] = {}
    for name, others in graph.items():
        own = _package(name, around)
        found.setdefault(own, set()).update(_package(other, around) for other in others)
    return {
        name: others - {name} for name, others in found.items() if name.startswith(f"{around}.")
    }


def _package(name: str, around: str) -> str:
    return ".".join(name.split(".")[: around.count(".") + 2])


def test_files_and_packages_import_each_other_in_one_direction() -> None:
    known = modules()
    graph = {name: {*imported(path, known)} - {name} for name, path in known.items()}
    assert len(graph) > 400
    graph[ROUND[0]].remove(ROUND[1])
    order = list(TopologicalSorter(graph).static_order())  # raises on a cycle, with its files
    assert order.index("ddpify.errors") < order.index("ddpify.cli")
    order = list(TopologicalSorter(packages(graph, "ddpify")).static_order())
    assert order.index("ddpify.understanding") < order.index("ddpify.codemods")
    order = list(TopologicalSorter(packages(graph, "ddpify.lint")).static_order())
    assert order.index("ddpify.lint.scripts") < order.index("ddpify.lint.rules")


def test_folders_of_the_understanding_import_each_other_in_one_direction() -> None:
    known = modules()
    around = "ddpify.understanding"
    folders = [f"{around}.{name}" for name in UNDERSTANDING]
    assert {one.parent.name for one in (ROOT / "ddpify/understanding").glob("*/__init__.py")} == {
        *UNDERSTANDING
    }
    graph = packages({name: {*imported(path, known)} for name, path in known.items()}, around)
    for at, folder in enumerate(folders):
        assert graph[folder].isdisjoint(folders[at + 1 :]), folder
        assert f"{around}.interpreter" not in graph[folder]


def test_names_of_libraries_stand_once() -> None:
    """Those that many rules ask for are constants next to what is known of them."""
    names = ("torch.distributed.init_process_group", "torch.multiprocessing.start_processes")
    for name in names:
        files = [path for path in modules().values() if f'"{name}"' in path.read_text("utf-8")]
        assert [path.name for path in files] == ["distributed.py"]
