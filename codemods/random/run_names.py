"""One name, and one seed, for all ranks where each process would make up its own."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from ddpify.codemods.synchronisation.rank0_values import on_all_ranks, share

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.clocks import is_clock
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.libraries.entropy import SEEDED
from ddpify.understanding.libraries.paths import path_of
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.sources import ANY_RANK, CLOCK
from ddpify.understanding.values import UNKNOWN, Instance, Method, Value

_NAMED = "tempfile.NamedTemporaryFile"
_FILES = ("tempfile.mkstemp", _NAMED)
_READ = ("builtins.getattr", "builtins.vars", "operator.attrgetter", "inspect.getmembers")
_FORMS = ("builtins.str", "builtins.int", "builtins.round")


def edit(plan: Plan, edits: Edits) -> None:
    """Take rank 0's where the others must find what it wrote, or draw the same numbers."""
    if not any(map(is_clock, plan.facts.library_calls)):
        return
    for path, site in _shared_paths(plan):
        if on_all_ranks(plan, edits, site):
            _take_rank_0s(plan, edits, path, site, "per-rank-run-directory")
    for seed, site in _seeds(plan):
        _take_rank_0s(plan, edits, seed, site, "rank-dependent-dataset")


def _shared_paths(plan: Plan) -> Iterator[tuple[cst.BaseExpression, Site]]:
    """The paths of folders that are made, and of files that are read or asked for."""
    for use in plan.places.uses:
        yield use.path, use.site
    for effect in plan.facts.effects.values():
        path = path_of(effect) if effect.kind == "folder" else None
        if path is not None:
            yield path, effect.site


def _seeds(plan: Plan) -> Iterator[tuple[cst.BaseExpression, Site]]:
    for name in SEEDED:
        for node, site in plan.facts.library_calls.get(name, {}).items():
            for given in node.args if isinstance(node, cst.Call) else ():
                yield given.value, site


def _take_rank_0s(
    plan: Plan, edits: Edits, used: cst.BaseExpression, site: Site, rule: str
) -> None:
    """Take rank 0's value of what makes an expression another on each rank, where that is made."""
    if plan.flow.sources(used, site.module) & ANY_RANK:
        return  # meant for one rank
    for one in list(plan.flow.ancestry(used, site.module)):
        if one.label == CLOCK and one.node is not None:
            place = _place(plan, one.node, used, site)
            if isinstance(one.node, cst.Call) and _opens_a_file(plan, one.node):
                if _finds_a_file(plan, one.node, used):
                    plan.refuse(_no_file_of_all(plan, one.node))
            elif place is not None and on_all_ranks(plan, edits, place):
                text = "the same on all ranks: rank 0 chooses it"
                share(plan, edits, place, text, rule)


def _opens_a_file(plan: Plan, call: cst.Call) -> bool:
    """Whether each process makes, and opens, a temporary file of its own."""
    return any(name in _FILES for name in library_names(plan.facts.values.get(call.func)))


def _finds_a_file(plan: Plan, opened: cst.Call, used: cst.BaseExpression) -> bool:
    """Whether a path may be such a file: as itself, or by its name, which something reads.

    What each rank writes into its own and reads from there, as a download does, is no path.
    """
    held = plan.facts.values.get(used)
    if not held or any(name.startswith(_FILES) for name in _libraries(held)):
        return True
    if not any(name == _NAMED for name in library_names(plan.facts.values.get(opened.func))):
        return True
    return any(_reads_its_name(plan, opened, module) for module in plan.project.files)


def _reads_its_name(plan: Plan, opened: cst.CSTNode, module: ModuleFile) -> bool:
    """Whether a file reads what one that is opened is called, other than to log it."""
    logged = {id(part) for call in walk(module.tree) if _logs(plan, call) for part in walk(call)}
    bases = [_named(plan, node) for node in walk(module.tree) if id(node) not in logged]
    return any(
        one.node is opened
        for base in bases
        if base is not None
        for one in plan.flow.ancestry(base, module)
    )


def _named(plan: Plan, node: cst.CSTNode) -> cst.BaseExpression | None:
    """What something reads the name of, or any attribute, as ``f.name`` and ``vars(f)`` do."""
    if isinstance(node, cst.Attribute):
        return node.value if node.attr.value in ("name", "__dict__") else None
    if not isinstance(node, cst.Call) or not node.args:
        return None
    names = library_names(plan.facts.values.get(node.func))
    return node.args[0].value if any(name in _READ for name in names) else None


def _logs(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a call writes its arguments into a log alone."""
    called = plan.facts.values.get(node.func) if isinstance(node, cst.Call) else None
    names = list(_libraries(called or UNKNOWN))
    return bool(names) and all(name.startswith("logging.") for name in names)


def _libraries(held: Value) -> Iterator[str]:
    """What a library calls what a value may be: itself, its class, or that of a method's object."""
    for atom in held.atoms:
        if isinstance(atom, Method):
            yield from _libraries(atom.receiver)
        elif isinstance(atom, Instance):
            yield atom.type if isinstance(atom.type, str) else ""
        else:
            yield from library_names(Value((atom,)))


def _no_file_of_all(plan: Plan, node: cst.CSTNode) -> Refusal:
    return Refusal(
        plan.module_of(node),
        node,
        "each rank opens a temporary file of its own here, and would not find what rank 0 writes",
        "take a name in tempfile.mkdtemp(), which is made rank 0's on all ranks",
    )


def _place(plan: Plan, clock: cst.CSTNode, used: cst.BaseExpression, site: Site) -> Site | None:
    """Where to take rank 0's value: where it is made, or read out of a file that stays."""
    module = plan.module_of(clock)
    if module.editable:
        return Site(_with_its_form(plan, clock), module)
    for one in plan.flow.ancestry(used, site.module):
        if one.node is None or one.location is None or not isinstance(one.node, cst.BaseExpression):
            continue
        module = plan.module_of(one.node)
        set_at = (plan.module_of(move.node) for move in plan.flow.edges_into({one.location}))
        made = module.editable and not any(other.editable for other in set_at)
        if made and CLOCK in plan.flow.sources(one.node, module):
            return Site(one.node, module)
    return None


def _with_its_form(plan: Plan, clock: cst.CSTNode) -> cst.CSTNode:
    """A call with what writes it down: ``datetime.now().strftime(...)``, ``str(time.time())``."""
    parents = plan.module_of(clock).parents
    while True:
        above = parents.get(clock)
        call = parents.get(above) if above is not None else None
        if isinstance(above, cst.Attribute):
            clock = call if isinstance(call, cst.Call) and call.func is above else above
        elif isinstance(above, cst.Arg) and isinstance(call, cst.Call) and _writes(plan, call):
            clock = call
        else:
            return clock


def _writes(plan: Plan, call: cst.Call) -> bool:
    """Whether a call puts a time into another form."""
    names = list(library_names(plan.facts.values.get(call.func)))
    return bool(names) and all(is_clock(name) or name in _FORMS for name in names)
