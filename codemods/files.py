"""Let rank 0 alone write: checkpoints, other files, folders, logs and progress bars."""

from __future__ import annotations

from collections.abc import Container, Iterator

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.libraries.kinds import is_loader, is_model
from ddpify.understanding.structure import children, walk
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import UNKNOWN, Bound, Class, Function, Instance, deep_atoms


def edit(plan: Plan, edits: Edits) -> None:
    """Change every place that writes."""
    once = {node for effect in plan.facts.effects.values() for node in _made_once(plan, effect)}
    for effect in sorted(plan.facts.effects.values(), key=lambda e: e.kind != "save"):
        site = _editable_site(effect)
        handler = _HANDLERS.get(effect.kind)
        if site is None or handler is None:
            continue
        if effect.kind in ("save", "write") and not once.isdisjoint(_around(effect.site)):
            continue
        handler(plan, edits, effect, site)
    for effect in plan.facts.effects.values():
        _wait_once(plan, edits, effect)


def _around(site: Site) -> Iterator[cst.CSTNode]:
    node = site.node
    while node in site.module.parents:
        node = site.module.parents[node]
        yield node


def _editable_site(effect: Effect) -> Site | None:
    """The place itself, or the call in the script that leads to it."""
    if effect.site.module.editable:
        return effect.site
    return next((c for c in reversed(effect.calls) if c.module.editable), None)


def _save(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    if site is not effect.site:
        _guard(plan, edits, effect, site)
        return
    assert isinstance(site.node, cst.Call)
    block = _opened_for_it_alone(site)
    if block is not None:
        _save_to_path(plan, edits, block, site.node)
    else:
        edits.put(site.node.func, f"{plan.options.alias}.save")
    edits.note(site, "saved by rank 0 alone, atomically", rule=_RULES[effect.kind])


def _opened_for_it_alone(site: Site) -> cst.With | None:
    """The ``with open(path, "wb") as f:`` around a save into ``f`` and nothing else."""
    parents = site.module.parents
    line = site.module.statement(site.node)
    block = parents.get(parents.get(line, line))
    if not isinstance(block, cst.With) or len(block.items) != 1 or len(block.body.body) != 1:
        return None
    item, call = block.items[0], site.node
    opened = item.item
    if not isinstance(opened, cst.Call) or code_of(opened.func) != "open" or item.asname is None:
        return None
    assert isinstance(call, cst.Call)
    into = call.args[1].value if len(call.args) > 1 else None
    same = into is not None and code_of(into) == code_of(item.asname.name)
    return block if same and isinstance(parents[call], cst.Expr) else None


def _save_to_path(plan: Plan, edits: Edits, block: cst.With, call: cst.Call) -> None:
    """Save to the path itself: the file must be whole before other ranks go on."""
    opened = block.items[0].item
    assert isinstance(opened, cst.Call)
    what, path = code_of(call.args[0].value), code_of(opened.args[0].value)
    code = f"{plan.options.alias}.save({what}, {path})\n"

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(updated, cst.With)
        line = cst.parse_statement(code)
        return line.with_changes(leading_lines=updated.leading_lines)

    edits.change(block, change)
    edits.replaced.add(block)


def _guard(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """Put a statement that writes under a test for rank 0, or its file out of the way."""
    statement = site.module.statement(site.node)
    if statement in edits.blocks or statement in edits.replaced:
        return
    if any(edits.blocks.get(n) == _main_alone(plan) for n in _around(Site(statement, site.module))):
        return
    whole = _writes_only(statement, site.node)
    if whole and not _reduces_inside(plan, statement):
        _write_on_main(plan, edits, effect, site, statement)
    elif whole and _can_go_before(plan, statement, site.node):
        _compute_before(plan, edits, statement, site.node)
        _write_on_main(plan, edits, effect, site, statement)
    elif _part_of_line(plan, statement, site.node) is not None:
        _write_part_on_main(plan, edits, effect, site, statement)
    elif effect.kind == "save" and site is not effect.site and _goes_on(plan, site):
        edits.put_under(statement, f"with {plan.options.alias}.main_saves():")
        edits.note(site, f"{_short_name(effect)} by rank 0 alone", rule=_RULES[effect.kind])
    elif whole and site is not effect.site and not _hands_over_training(plan, site):
        _write_on_main(plan, edits, effect, site, statement)
    elif effect.name.endswith("open") and site is effect.site:
        _open_nothing(plan, edits, effect, site)
    elif not effect.site.module.editable:
        _local_main_first(plan, edits, effect, site)
    else:
        edits.note(
            site,
            f"{_short_name(effect)} is done by every rank: guard it",
            rule=_RULES[effect.kind],
            attention=True,
        )


def _write_on_main(
    plan: Plan, edits: Edits, effect: Effect, site: Site, statement: cst.CSTNode
) -> None:
    for node in walk(statement):
        if edits.blocks.get(node) == _main_alone(plan):
            del edits.blocks[node]
    edits.put_under(statement, _main_alone(plan))
    edits.note(site, f"{_short_name(effect)} on rank 0 alone", rule=_RULES[effect.kind])


def _part_of_line(
    plan: Plan, statement: cst.CSTNode, node: cst.CSTNode
) -> cst.BaseSmallStatement | None:
    """The call that writes among several statements of one line, where it is one of them."""
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    found = [p for p in parts if isinstance(p, cst.Expr) and p.value is node]
    return next((p for p in found if not _reduces_inside(plan, p)), None)


def _write_part_on_main(
    plan: Plan, edits: Edits, effect: Effect, site: Site, statement: cst.CSTNode
) -> None:
    part = _part_of_line(plan, statement, site.node)
    assert part is not None
    edits.put_part_under(part, _main_alone(plan))
    edits.note(site, f"{_short_name(effect)} on rank 0 alone", rule=_RULES[effect.kind])


def _main_alone(plan: Plan) -> str:
    return f"if {plan.options.alias}.is_main():"


def _compute_before(plan: Plan, edits: Edits, statement: cst.CSTNode, write: cst.CSTNode) -> None:
    """What all ranks take part in inside a write is computed before it, and given names."""
    names = {n.value for n in plan.module_of(statement).parents if isinstance(n, cst.Name)}
    around = {write, *_around(Site(write, plan.module_of(write)))}
    for node in _taken_part_in(plan, statement, around):
        reduced = any(inner in plan.reductions for inner in walk(node))
        name = _free("whole" if reduced else "made", names)
        names.add(name)
        edits.move_before(statement, node, name)


def _free(stem: str, names: set[str]) -> str:
    """A name that a file does not use yet."""
    numbered = (f"{stem}_{number}" for number in range(2, len(names) + 3))
    return next(name for name in (stem, *numbered) if name not in names)


def _writes_only(statement: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a statement is there for the writing: no other value comes of it."""
    if isinstance(statement, cst.SimpleStatementLine):
        return len(statement.body) == 1 and isinstance(statement.body[0], cst.Expr)
    if isinstance(statement, cst.With):
        return not any(
            isinstance(n, (cst.Assign, cst.AugAssign, cst.Return, cst.Yield))
            for n in walk(statement.body)
        )
    return False


def _reduces_inside(plan: Plan, statement: cst.CSTNode) -> bool:
    """Whether a statement holds something that all ranks must take part in."""
    return any(
        n in plan.reductions or ("save", n) in plan.facts.effects or _runs_own_code(plan, n)
        for n in walk(statement)
    )


def _can_go_before(plan: Plan, statement: cst.CSTNode, write: cst.CSTNode) -> bool:
    """Whether what all ranks take part in inside a write can be computed before it."""
    nodes = list(walk(statement))
    around = {write, *_around(Site(write, plan.module_of(write)))}
    if any(("save", n) in plan.facts.effects for n in nodes):
        return False
    if any(_runs_own_code(plan, n) for n in nodes if n in around):
        return False
    bound = {name for n in nodes for name in _bound_by(n)}
    many = isinstance(statement, cst.With)
    for part in _taken_part_in(plan, statement, around):
        module = Site(part, plan.module_of(part))
        inside = [n for n in _around(module) if n in nodes]
        within = list(walk(part))
        if any(isinstance(n, _SOMETIMES) for n in inside):
            return False
        if any(isinstance(n, cst.Name) and n.value in bound for n in within):
            return False
        if many and any(_runs_own_code(plan, n) for n in within):
            return False
    return True


# What may leave an expression in it out, or compute it many times.
_SOMETIMES = (cst.Lambda, cst.BaseComp, cst.IfExp, cst.BooleanOperation)


def _bound_by(node: cst.CSTNode) -> Iterator[str]:
    """The names that a loop, or a block's header, binds."""
    target = node.target if isinstance(node, (cst.For, cst.CompFor)) else None
    target = node.name if isinstance(node, cst.AsName) else target
    for inner in walk(target) if target is not None else ():
        if isinstance(inner, cst.Name):
            yield inner.value


def _taken_part_in(
    plan: Plan, node: cst.CSTNode, around: Container[cst.CSTNode]
) -> Iterator[cst.BaseExpression]:
    """The outermost parts of a write that all ranks run: reductions, and the project's own code."""
    for child in children(node):
        shared = child in plan.reductions or _runs_own_code(plan, child)
        if shared and child not in around and isinstance(child, cst.BaseExpression):
            yield child
        else:
            yield from _taken_part_in(plan, child, around)


def _goes_on(plan: Plan, site: Site) -> bool:
    """Whether all ranks must run a call that saves: it may change its object, or use a model."""
    called = plan.facts.values.get(site.node.func) if isinstance(site.node, cst.Call) else None
    atoms = called.atoms if called is not None else ()
    return any(isinstance(a, (Bound, Instance)) for a in atoms) or _hands_over_training(plan, site)


def _hands_over_training(plan: Plan, site: Site) -> bool:
    """Whether a call of another file's code gives it a model or a loader, which all ranks run."""
    arguments = site.node.args if isinstance(site.node, cst.Call) else ()
    held = [plan.facts.values.get(a.value) for a in arguments]
    return any(
        isinstance(atom, Instance) and (is_model(atom) or is_loader(atom))
        for one in held
        if one is not None
        for atom in one.atoms
    )


def _runs_own_code(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a call leads into the project's code or a model, which may hold anything."""
    if not isinstance(node, cst.Call):
        return False
    called = plan.facts.values.get(node.func)
    atoms = called.atoms if called is not None else ()
    return any(
        isinstance(a, (Function, Bound, Class))
        or (isinstance(a, Instance) and (is_model(a) or isinstance(a.type, Class)))
        for a in atoms
    )


def _open_nothing(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """Other ranks write into the null device: the handle outlives the statement."""
    assert isinstance(site.node, cst.Call)
    first = site.node.args[0].value
    _on_main_else(plan, edits, first, "os.devnull")
    edits.imports[site.module].add("os")
    edits.note(site, f"{code_of(first)} written by rank 0 alone", rule=_RULES[effect.kind])


# Where a conditional expression stands alone, and needs no parentheses.
_DELIMITING = (
    cst.Assign,
    cst.AnnAssign,
    cst.Arg,
    cst.Return,
    cst.Element,
    cst.DictElement,
    cst.WithItem,
    cst.Expr,
)


def _on_main_else(plan: Plan, edits: Edits, node: cst.CSTNode, other: str) -> None:
    """An expression ``x`` becomes ``x if is_main() else other``."""

    def change(updated: cst.CSTNode) -> cst.CSTNode:
        made = cst.parse_expression(f"(_ if {plan.options.alias}.is_main() else {other})")
        assert isinstance(made, cst.IfExp) and isinstance(updated, cst.BaseExpression)
        made = made if nested else made.with_changes(lpar=[], rpar=[])
        return made.with_changes(body=updated)

    parent = plan.module_of(node).parents.get(node)
    nested = not isinstance(parent, _DELIMITING)
    edits.change(node, change)


def _leave_to_the_user(edits: Edits, effect: Effect, site: Site, what: str) -> None:
    text = f"{_short_name(effect)} is {what}"
    edits.note(site, text, rule=_RULES[effect.kind], attention=True)


def _short_name(effect: Effect) -> str:
    return f"{effect.name.rsplit('.', 1)[-1]}()"


def _folder(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """A folder that is there already is no error: another rank may have been first."""
    if site is not effect.site:
        _local_main_first(plan, edits, effect, site)
        return
    assert isinstance(site.node, cst.Call)
    told = [a for a in site.node.args if a.keyword is not None and a.keyword.value == "exist_ok"]
    if told and code_of(told[0].value) == "True":
        return
    if told:
        edits.put(told[0].value, "True")
    else:
        edits.add_keyword(site.node, "exist_ok=True")
    if effect.name == "os.mkdir":
        edits.put(site.node.func, "os.makedirs")
    edits.note(site, "folder made by whichever rank comes first", rule=_RULES[effect.kind])


def _download(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """One rank of each node downloads; a data set's own constructor does it where it is made."""
    made = next((c for c in effect.calls if c.module.editable and _data_sets(plan, c)), None)
    _local_main_first(plan, edits, effect, made or site)


def _made_once(plan: Plan, effect: Effect) -> Iterator[cst.CSTNode]:
    """The classes of data sets that one rank of each node makes first, downloads and all.

    What they write, the others find.
    """
    for call in effect.calls if effect.kind == "download" else ():
        if call.module.editable:
            yield from (made.node for made in _data_sets(plan, call))


def _data_sets(plan: Plan, site: Site) -> list[Class]:
    """The project's data sets that a call makes; what also holds models or loaders is none."""
    held = plan.facts.values.get(site.node.func) if isinstance(site.node, cst.Call) else None
    made = [a for a in held.atoms if isinstance(a, Class)] if held is not None else []
    return [a for a in made if a.find("__getitem__") or any(map(_is_data_set, a.library_bases()))]


def _is_data_set(base: str) -> bool:
    return base.endswith("Dataset") or base.startswith("torchvision.datasets.")


def _local_main_first(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    calls = (c for c in reversed(effect.calls) if c.module.editable and _gives_data(plan, c))
    site = next((place for place in (site, *calls) if _can_wait(place)), site)
    if not _can_wait(site):
        edits.note(
            site,
            f"{_short_name(effect)} is done by every rank at once",
            rule=_RULES[effect.kind],
            attention=True,
        )
        return
    statement = site.module.statement(site.node)
    edits.put_under(statement, f"with {plan.options.alias}.local_main_first():")
    edits.note(site, f"{_short_name(effect)} once a node", rule=_RULES[effect.kind])


def _wait_once(plan: Plan, edits: Edits, effect: Effect) -> None:
    """What is done in a call that one rank of each node makes first waits for nobody again."""
    header = f"with {plan.options.alias}.local_main_first():"
    statement = effect.site.module.statement(effect.site.node)
    if edits.blocks.get(statement) != header:
        return
    outer = (c.module.statement(c.node) for c in effect.calls if c.module.editable)
    if any(edits.blocks.get(one) == header for one in outer if one is not statement):
        del edits.blocks[statement]


def _can_wait(site: Site) -> bool:
    """Whether a whole statement runs where this stands, and nothing leaves the block with it."""
    statement = site.module.statement(site.node)
    later = any(isinstance(node, cst.Lambda) for node in _around(site))
    if later or not isinstance(statement, cst.SimpleStatementLine):
        return False
    return not isinstance(statement.body[0], cst.Return)


def _gives_data(plan: Plan, site: Site) -> bool:
    """Whether a call gives back no more than data: models and loaders take part in collectives."""
    made = deep_atoms(plan.facts.values.get(site.node, UNKNOWN))
    return bool(made) and not any(
        isinstance(atom, Instance) and (is_model(atom) or is_loader(atom)) for atom in made
    )


def _bar(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """Only rank 0 shows a bar; on stdout the other ranks are silent anyway."""
    if site is not effect.site or not isinstance(site.node, cst.Call):
        return
    given = {a.keyword.value: a for a in site.node.args if a.keyword is not None}
    if "file" in given and code_of(given["file"].value) == "sys.stdout":
        return
    hidden = f"not {plan.options.alias}.is_main()"
    if "disable" in given:
        old = given["disable"].value
        if code_of(old) == "True":
            return
        alone = isinstance(old, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        edits.put(old, f"{code_of(old) if alone else f'({code_of(old)})'} or {hidden}")
    else:
        edits.add_keyword(site.node, f"disable={hidden}")
    edits.note(site, "progress bar on rank 0 alone")


def _writer(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """The other ranks log to an object that does nothing."""
    if site is not effect.site:
        edits.note(
            site, f"{_short_name(effect)} on every rank", rule=_RULES[effect.kind], attention=True
        )
        return
    _on_main_else(plan, edits, site.node, f"{plan.options.alias}.silent()")
    edits.note(site, f"{_short_name(effect)} on rank 0 alone", rule=_RULES[effect.kind])


def _logfile(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """Log files of the other ranks are the null device."""
    if site is not effect.site or not isinstance(site.node, cst.Call):
        edits.note(
            site, "a log file is opened by every rank", rule=_RULES[effect.kind], attention=True
        )
        return
    named = {a.keyword.value: a.value for a in site.node.args if a.keyword is not None}
    target = named.get("filename") or (site.node.args[0].value if site.node.args else None)
    if target is None:
        return
    _on_main_else(plan, edits, target, "os.devnull")
    edits.imports[site.module].add("os")
    edits.note(site, "log file of rank 0 alone", rule=_RULES[effect.kind])


_RULES = {
    "save": "write-on-all-ranks",
    "write": "write-on-all-ranks",
    "folder": "makedirs-race",
    "download": "download-on-all-ranks",
    "writer": "logger-on-all-ranks",
    "logfile": "logger-on-all-ranks",
}
_HANDLERS = {
    "save": _save,
    "write": _guard,
    "folder": _folder,
    "download": _download,
    "bar": _bar,
    "writer": _writer,
    "logfile": _logfile,
}
