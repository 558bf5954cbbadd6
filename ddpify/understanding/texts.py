"""What the other files of a project say: which PyTorch it is for, and what starts a script."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

_NAMES = re.compile(
    r"(?i)^(?:readme.*|requirements?.*|environment.*|install.*|dockerfile.*|makefile"
    r"|setup\.(?:py|cfg)|pyproject\.toml|.*\.(?:sh|bash|slurm|sbatch|md|rst|ya?ml))$"
)
_LEVELS, _MOST_FILES, _MOST_BYTES = 4, 80, 200_000
_MOST_NAMES, _MOST_CODE = 20_000, 300
_FOLDERS = ("scripts", "script", "tools", "docs", "docker", "experiments", "exps", "requirements")

# "PyTorch 1.13", "torch==1.7.1", "pytorch (1.2)", but not "torch >= 1.8" nor "PyTorch 1.8+".
_TORCH = r"(?i)(?<![\w.-])(?:py)?torch(?:[-_ ]?version)?[\s:`*_(\[\"'v]*"
_OR_LATER = (
    r"(?!\.?\d)(?!\s*(?:\+(?!cu|cpu)|(?:or|and)\s+(?:\w+\s+)?(?:later|higher|newer|above|up)))"
)
_OLD_TORCH = re.compile(rf"{_TORCH}(?:==?|~=|<=?|-)?[\s\"'v]*(?:0\.\d|1\.\d+)(?:\.\d+)*{_OR_LATER}")
_NEW_TORCH = re.compile(rf"{_TORCH}(?:[><=~]=?|-)?[\s\"'v]*[2-9]\.\d")
# There is no PyTorch 2 for these, and conda's packages of CUDA have another name since then.
_OLD_PYTHON = re.compile(rf"(?i)\bpython[\s:]*(?:==?|-)?\s*3\.[5-7](?:\.\d+)?{_OR_LATER}")
_OLD_CUDA = re.compile(r"\bcudatoolkit\s*=|\bcudatoolkit\b(?=.*-c pytorch)")

_OLD_LAUNCHER = "torch.distributed.launch"
_NAMES_OLD_LAUNCHER = re.compile(r"distributed[./]launch\b")
_USES_ENVIRONMENT = re.compile(r"--use[-_]env\b")
_ONE_NODE = re.compile(
    r"--nnodes?[=\s]+[\"']?1(?::1)?(?![\d:])|--standalone\b"
    r"|\bsrun\b.*?\s(?:--nodes[=\s]|-N)\s*1(?![\d-])"
)
_NODES = re.compile(r"--nnodes?\b|--node[-_]rank\b")
_SAYS_NODES = re.compile(
    r"(?i)\bmulti(?:ple)?[- ]?(?:nodes?|machines?)\b|多机|多节点|複数ノード|マルチノード"
)
# A number of nodes that is not 1, or a variable, where a job is submitted: by Slurm or a script of
# the project, in an option of another launcher, by PBS, SkyPilot or Kubernetes.
_SUBMITTED_TO_NODES = re.compile(
    r"(?m)(?:^\s*#SBATCH|\b(?:srun|sbatch|salloc)|submit\w*\.py)\b.*?\s(?:--nodes[=\s]|-N)\s*(?!1(?![\d-]))\S"
    r"|--num[-_](?:nodes|machines)[=\s]+(?!1(?!\d))\S"
    r"|^\s*#PBS\s.*?\b(?:nodes|select)=(?!1(?!\d))\S"
    r"|^\s*num_nodes:\s*(?!1(?!\d))\S"
    r"|^\s*Worker:\s*\n\s*replicas:\s*(?!0)\S"
)
_SUBMITTED_TO_ONE = re.compile(
    r"(?m)(?:^\s*#SBATCH|\b(?:sbatch|salloc))\b.*?\s(?:--nodes[=\s]|-N)\s*1(?![\d-])"
)
_STARTS_ON_NODES = re.compile(r"\b(?:srun|mpirun|mpiexec|horovodrun)\s")
_LOADS_INTO_WRAPPER = re.compile(
    r"(?m)^\s*(\w+)\s*=.*\b(?:DataParallel|DistributedDataParallel|DDP)\(.*\n(?:.*\n){0,2}?\s*\1\.load_state_dict"
)
_TAKES_OFF = re.compile(r"""(?:replace|removeprefix)\(\s*["']module\.["']""")
_SEVERAL_NODES = re.compile(r"--nnodes?[=\s]+[\"']?(?:1:[2-9]|[2-9]|1\d)")
_DOCSTRING = re.compile(r'(?s)"""(.*?)"""')
_COMMENT = re.compile(r"\s*#")
_PRINTED = re.compile(r"""^\s*print\([rf]?(["'])(.*)\1\)\s*$""")
_GIVEN = re.compile(r"^(?!.*(?:\w\.py\b|\s-m\s+(?!torch\.distributed\.)\w)).*\s[\"']?\$\S+")
_LAUNCHERS = re.compile(r"torch\.distributed\.launch\b|torch\.distributed\.run\b|\btorchrun\b")
# A script that tells processes which rank they are, and starts them: one for each GPU of a node.
_TELLS_RANK = re.compile(r"""\[["'](?:LOCAL_)?RANK["']\]\s*=""")
_STARTS_PROCESSES = re.compile(r"\bPopen\(|\bsubprocess\.(?:run|call|check_call)\(")
_STARTS_ON_MORE = re.compile(r"""--n?nodes?["'][^)]*\bdefault=(?!1\b)""")
_GIVES_A_SCRIPT = re.compile(r"\bpython[\d.]*\s+(?:-\S+\s+)*(\S+\.py)\s(?=.*\w\.py\b)")
_PASSES_RANK = re.compile(r"--local[-_]rank\b")


class Texts(dict[Path, str]):
    """Documents, requirements and shell scripts of a project, by their paths; ``said``: docstrings,
    comments and prints of its code, of which the commands are heeded; ``launchers``: scripts of
    the project that start others as ranks, by their paths.
    """

    said: tuple[str, ...] = ()
    launchers: Mapping[Path, str] = MappingProxyType({})

    @cached_property
    def commands(self) -> list[tuple[str, str]]:
        """The launchers in their commands, each with the whole command."""
        own = "|".join(re.escape(path.name) for path in self.launchers) or r"(?!)"
        starts = rf"\bpython[\d.]*\s+(?:-\S+\s+)*(?:\S*/)?({own})\s(?=.*\w\.py\b)"
        return [
            (launcher, command)
            for command in self.lines
            for launcher in (*_LAUNCHERS.findall(command), *re.findall(starts, command))
        ]

    @cached_property
    def starts(self) -> dict[Path, list[str]]:
        """The commands that start a script, once they have been looked for."""
        return {}

    @cached_property
    def lines(self) -> list[str]:
        """The lines of all of them; what a backslash continues is one."""
        return [
            line
            for text in (*self.values(), *self.said)
            for line in re.sub(r"\\\r?\n", " ", text).splitlines()
        ]


def texts_around(script: Path) -> Texts:
    """The documents, requirements and shell scripts of a project, by their paths.

    They are those in the script's folder and above it, up to the repository's root, and in folders
    there that are called so and have folders of their own.
    """
    found = Texts()
    for above in folders_above(script):
        found |= {path: text_of(path) for path in _files(above)}
    return found


def folders_above(script: Path) -> Iterator[Path]:
    """A script's folder and those above it, up to the repository's root."""
    folder = script.resolve().parent
    for above in (folder, *folder.parents[: _LEVELS - 1]):
        yield above
        if (above / ".git").exists():
            return


def said_in(source: str) -> str:
    """The docstrings, comments and prints of a Python file, where commands may stand."""
    lines = source.splitlines()
    said = [*_DOCSTRING.findall(source)[:1]]
    said += [line.strip().lstrip("# ") for line in lines if _COMMENT.match(line)]
    printed = filter(None, map(_PRINTED.match, lines))
    said += [one[2].replace("\\\\", "\\").replace("\\n", "\n") for one in printed]
    return "\n".join(said)


def said_of(script: Path, source: str) -> str:
    """The lines with commands for a script among what another file says."""
    if script.name not in source:
        return ""
    lines = re.sub(r"\\\r?\n", " ", said_in(source)).splitlines()
    return "\n".join(line for line in lines if script.name in line and _LAUNCHERS.search(line))


def _files(folder: Path) -> Iterator[Path]:
    return files_within(folder, _FOLDERS, lambda name: _NAMES.match(name) is not None)


def files_within(
    folder: Path, called: Collection[str], fits: Callable[[str], bool]
) -> Iterator[Path]:
    """The first files whose names fit, in a folder and in those called so, down to theirs."""
    named = [folder / name for name in called if (folder / name).is_dir()]
    below = (place / name for place in named for name in _names(place))
    places = (folder, *named, *[one for one in below if one.is_dir()])
    held = (place / name for place in places for name in _names(place) if fits(name))
    some = (path for path in held if path.is_file())
    yield from (path for path, _ in zip(some, range(_MOST_FILES), strict=False))


def _names(folder: Path) -> list[str]:
    """What is in a folder, in order; nothing where it is not there, or may not be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def text_of(path: Path) -> str:
    """What a file says, up to a number of bytes."""
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")


def scripts_beside(script: Path) -> dict[Path, str]:
    """The other scripts in the folder of one, by their paths."""
    folder = script.resolve().parent
    beside = (folder / name for name in _names(folder) if name.endswith(".py"))
    some = (one for one in beside if one.is_file() and one != script.resolve())
    return {path: text_of(path) for path, _ in zip(some, range(_MOST_FILES), strict=False)}


def code_around(script: Path) -> dict[Path, str] | None:
    """The Python files and notebooks of the repository of a script, by their paths; without one,
    those of its folder. None where there are too many to read.
    """
    *_, root = folders_above(script)
    if not (root / ".git").exists():
        return scripts_beside(script)
    found, looked = dict[Path, str](), 0
    for folder, folders, names in os.walk(root):
        folders[:] = [one for one in folders if not one.startswith((".", "__pycache__"))]
        looked += len(names)
        code = [Path(folder, one) for one in names if one.endswith((".py", ".ipynb"))]
        if looked > _MOST_NAMES or len(found) + len(code) > _MOST_CODE:
            return None
        found |= {path: text_of(path) for path in code if path.is_file()}
    return found


def launchers_around(script: Path, texts: Texts) -> dict[Path, str]:
    """The scripts that commands give another one, to start it as the ranks of a node.

    They are those in the script's folder and above it, unless they start more nodes by themselves.
    """
    named = {name for line in texts.lines for name in _GIVES_A_SCRIPT.findall(line)}
    paths = (folder / name for folder in folders_above(script) for name in sorted(named))
    held = {path: text_of(path) for path in paths if path.is_file()}
    return {path: text for path, text in held.items() if _starts_ranks(text)}


def _starts_ranks(text: str) -> bool:
    """Whether a script tells processes which ranks they are, and starts them."""
    tells = _TELLS_RANK.search(text) and _STARTS_PROCESSES.search(text)
    return tells is not None and _STARTS_ON_MORE.search(text) is None


def loads_wrapped_state(text: str) -> bool:
    """Whether a script loads states whose keys start with ``module.``, on purpose."""
    return _LOADS_INTO_WRAPPER.search(text) is not None or _TAKES_OFF.search(text) is not None


def is_for_old_torch(texts: Mapping[Path, str]) -> bool:
    """Whether a project asks for a PyTorch before 2.0, as far as its files say."""
    held = [*texts.values()]
    if any(_NEW_TORCH.search(text) for text in held):
        return False
    signs = (_OLD_TORCH, _OLD_PYTHON, _OLD_CUDA)
    return any(sign.search(text) for text in held for sign in signs)


def is_passed_no_rank(script: Path, texts: Texts) -> bool:
    """Whether commands start this script, and none with the launcher that passes it its rank.

    That is torch.distributed.launch without ``--use_env``, or one of the project that does so.
    """
    passing = {path.name for path, text in texts.launchers.items() if _PASSES_RANK.search(text)}
    passes = {
        launcher in {_OLD_LAUNCHER, *passing} and not _USES_ENVIRONMENT.search(command)
        for launcher, command in _launches([script], texts)
    }
    return passes == {False}


def names_another_start(script: Path, texts: Texts) -> bool:
    """Whether texts say what starts ranks, or this script, and none speaks of the old launcher."""
    if any(map(_NAMES_OLD_LAUNCHER.search, (*texts.values(), *texts.said))):
        return False
    return bool(texts.commands or starts_of(script, texts))


def starts_of(script: Path, texts: Texts) -> list[str]:
    """The commands that start this script, by a launcher or as one process."""
    if script not in texts.starts:
        name = re.escape(script.stem)
        start = re.compile(rf"\b(?:python[\d.]*|torchrun)\s(?:[^|;&]*[\s/])?{name}\.py\b")
        texts.starts[script] = [line for line in texts.lines if start.search(line)]
    return texts.starts[script]


def launches_of(script: Path, texts: Texts) -> list[str]:
    """The commands that start this script with a launcher."""
    return [command for _, command in _launches([script], texts)]


def gives_more(command: str) -> bool:
    """Whether a variable stands for options: ``train.py $OPTIONS``, but not ``--lr $LR``."""
    words = command.split()
    return any(
        word.strip("\"'").startswith("$") and not before.startswith("-")
        for before, word in pairwise(words)
    )


def starts_what_it_is_given(texts: Texts) -> bool:
    """Whether some launcher starts the script that a variable says."""
    return bool(_launches_of_any(texts))


def is_launched(scripts: Collection[Path], texts: Texts) -> bool:
    """Whether some command starts one of these with a launcher, which tells ranks their numbers."""
    return any(True for _ in _launches(scripts, texts))


def is_kept_to_one_node(scripts: Collection[Path], texts: Texts, *, program: bool) -> bool:
    """Whether commands start one of these with a launcher, or a script that they are given, or else
    other scripts of the project, and neither they, nor what submits them, nor texts speak of
    several nodes.

    Launchers that are not told a number of nodes start one. What one of the project's own starts
    says nothing of another ``program``, but of a file that is imported.
    """
    own = {path.name for path in texts.launchers if program}
    others = [one for one in texts.commands if one[0] not in own]
    found = [*_launches(scripts, texts)] or _launches_of_any(texts) or others
    lines = [command for _, command in found]
    if any("$" in command for command in lines):  # its options may stand in a variable
        lines += [line for text in texts.values() for line in text.splitlines()]
    several = any(_NODES.search(line) and not _ONE_NODE.search(line) for line in lines)
    said = (*texts.values(), *texts.said)
    several = several or any(map(_SAYS_NODES.search, texts.values()))
    several = several or any(map(_SUBMITTED_TO_NODES.search, said))
    return bool(found) and not several and not _may_start_on_nodes(scripts, texts)


def _may_start_on_nodes(scripts: Collection[Path], texts: Texts) -> bool:
    """Whether something else than a launcher starts the ranks of one of these, and nothing says on
    how many nodes: ``srun python train.py``.
    """
    starts = [line for one in scripts for line in starts_of(one, texts)]
    return any(
        _STARTS_ON_NODES.search(line) and not (_LAUNCHERS.search(line) or _ONE_NODE.search(line))
        for line in starts
    ) and not any(map(_SUBMITTED_TO_ONE.search, texts.values()))


def is_given_several_nodes(scripts: Collection[Path], texts: Texts) -> bool:
    """Whether some command starts one of these with a launcher on two nodes or more."""
    return any(_SEVERAL_NODES.search(command) for _, command in _launches(scripts, texts))


def _launches(scripts: Collection[Path], texts: Texts) -> Iterator[tuple[str, str]]:
    """The launchers that commands start one of the scripts with, and the commands."""
    stems = "|".join(re.escape(one.stem) for one in scripts)
    name = re.compile(rf"(?<![\w.-])(?:{stems})\.py\b|-m\s+(?:\w+\.)*(?:{stems})(?!\S)")
    return ((launcher, command) for launcher, command in texts.commands if name.search(command))


def _launches_of_any(texts: Texts) -> list[tuple[str, str]]:
    """The launchers and commands that start what a variable says: ``torchrun "$1"``."""
    return [(launcher, command) for launcher, command in texts.commands if _GIVEN.search(command)]
