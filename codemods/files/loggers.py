"""Progress bars, loggers and log files are those of rank 0 alone."""

from __future__ import annotations

import libcst as cst
from ddpify.codemods.files.file_handles import written_by_main
from ddpify.codemods.files.write_effects import note, on_main_else, short_name, write_nowhere

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Effect, Site
from ddpify.understanding.syntax import code_of


def bar(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
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
    note(edits, effect, site, "progress bar on rank 0 alone")


def writer(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """The other ranks log to an object that does nothing."""
    if site is not effect.site:
        note(edits, effect, site, f"{short_name(effect)} on every rank", attention=True)
        return
    on_main_else(plan, edits, site.node, f"{plan.options.alias}.silent()")
    note(edits, effect, site, f"{short_name(effect)} on rank 0 alone")


def logfile(plan: Plan, edits: Edits, effect: Effect, site: Site) -> None:
    """Log files of the other ranks are the null device."""
    if site is not effect.site or not isinstance(site.node, cst.Call):
        if not written_by_main(plan, edits, effect, site):
            note(edits, effect, site, "a log file is opened by every rank", attention=True)
        return
    named = {a.keyword.value: a.value for a in site.node.args if a.keyword is not None}
    target = named.get("filename") or (site.node.args[0].value if site.node.args else None)
    if target is None:
        return
    write_nowhere(plan, edits, target, site)
    note(edits, effect, site, "log file of rank 0 alone")
