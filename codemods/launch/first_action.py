"""The first statement of a script that acts: the process group must have started before it."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, is_main_guard
from ddpify.understanding.values import UNKNOWN, Bound, Class, Function

_IMPORTS = (cst.Import, cst.ImportFrom)
# What makes objects in memory, and is the same before the ranks know of each other as after.
_QUIET = frozenset(
    [f"builtins.{name}" for name in "sorted list dict set tuple frozenset len range zip map filter"
     " enumerate reversed callable isinstance getattr hasattr int float str bool min max sum abs"
     " round vars dir type".split()]
    + [f"os.path.{name}" for name in "join dirname abspath realpath basename normpath".split()]
    + ["logging.getLogger", "warnings.filterwarnings", "warnings.simplefilter", "matplotlib.use",
       "collections.namedtuple", "collections.OrderedDict", "collections.defaultdict",
       "re.compile", "functools.partial", "typing.TypeVar", "typing.NewType", "pathlib.Path",
       "argparse.ArgumentParser", "torch.set_printoptions", "numpy.set_printoptions",
       "pandas.set_option"]
)  # fmt: skip
_QUIET_METHODS = frozenset(
    "append extend add update keys values items add_argument add_argument_group set_defaults"
    " islower isupper lower upper startswith endswith strip split join format replace".split()
)


def first_action(plan: Plan, module: ModuleFile) -> cst.CSTNode | None:
    """The first top-level statement that does anything but import and define.

    That is the main part where what stands before it does nothing that goes by the ranks.
    """
    acting = [statement for statement in module.tree.body if _acts(statement)]
    for statement in acting:
        if isinstance(statement, cst.If) and is_main_guard(statement.test):
            return statement
        if not _is_quiet(plan, statement):
            break
    return acting[0] if acting else None


def _acts(statement: cst.CSTNode) -> bool:
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return False
    if isinstance(statement, cst.SimpleStatementLine):
        if all(isinstance(part, _IMPORTS) for part in statement.body):
            return False
        calls = any(isinstance(node, cst.Call) for node in walk(statement))
        return calls and not _finds_modules(statement)
    return not (isinstance(statement, cst.Try) and _only_imports(statement))


def _is_quiet(plan: Plan, statement: cst.CSTNode) -> bool:
    """Whether a line only makes objects in memory, or adds to them."""
    calls = [node for node in walk(statement) if isinstance(node, cst.Call)]
    return isinstance(statement, cst.SimpleStatementLine) and all(
        _makes_objects(plan, call) for call in calls
    )


def _makes_objects(plan: Plan, call: cst.Call) -> bool:
    called = plan.facts.values.get(call.func, UNKNOWN)
    names = set(library_names(called))
    if names or any(called.of(Function, Bound, Class)):
        return bool(names) and names <= _QUIET and len(names) == len(called.atoms)
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _QUIET_METHODS


def _finds_modules(statement: cst.SimpleStatementLine) -> bool:
    """``sys.path.insert(...)`` and the like, which stand between imports."""
    return all(code_of(part).startswith("sys.path.") for part in statement.body)


def _only_imports(statement: cst.Try) -> bool:
    return any(isinstance(n, _IMPORTS) for n in walk(statement.body)) and not any(
        isinstance(n, cst.Call) for n in walk(statement.body)
    )
