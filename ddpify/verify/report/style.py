"""The look of the page, and the few lines of script that name what is under the pointer."""

CSS = """
:root { color-scheme: light dark; --ink: #1c2128; --soft: #59636e; --line: #d9dee4; --back: #fff;
  --panel: #f6f8fa; --good: #1a7f4b; --bad: #c0362c; --fair: #9a6700; --own: #2563c9;
  --other: #e07a1f; --old: #ffebe9; --new: #e6f6ea; --oldmark: #ffc1ba; --newmark: #abe6b9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e7ec; --soft: #98a2ad; --line: #363d46;
  --back: #14181d; --panel: #1c2128; --good: #4cc38a; --bad: #ff7b6e; --fair: #e0b341;
  --own: #6ea8ff; --other: #ffa657; --old: #3c1f1f; --new: #18301f; --oldmark: #7d2e2a;
  --newmark: #22663a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; }
h2 { font-size: 19px; margin: 40px 0 10px; }
h3 { font-size: 15px; margin: 22px 0 6px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
code, pre, .code { font: 12.5px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
header { border-left: 6px solid var(--tone); padding: 2px 0 4px 18px; }
header h1 { color: var(--tone); } .good { --tone: var(--good); } .bad { --tone: var(--bad); }
.fair { --tone: var(--fair); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 12px;
  margin: 14px 0; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px;
  border-top: 3px solid var(--tone); }
.card b { display: block; color: var(--soft); font-weight: 500; }
.card span { color: var(--tone); font-weight: 600; }
table.facts { border-collapse: collapse; width: 100%; }
table.facts td, table.facts th { border-bottom: 1px solid var(--line); padding: 5px 14px 5px 0;
  text-align: left; vertical-align: top; font-weight: 400; }
table.facts th { color: var(--soft); }
td.yes { color: var(--good); } td.no { color: var(--bad); font-weight: 600; }
.finding { border: 1px solid var(--line); border-left: 4px solid var(--bad); border-radius: 6px;
  padding: 10px 16px; margin: 12px 0; background: var(--panel); }
.finding.named { border-left-color: var(--fair); }
td.n.suspect { background: var(--bad); color: var(--back); font-weight: 700; }
.said { color: var(--tone); } .key i.dashed { border-top-style: dashed; }
.finding pre { padding: 4px 10px; margin: 6px 0; background: var(--back); }
section:target { outline: 2px solid var(--fair); } a.rule { color: inherit; }
.finding p { margin: 3px 0; } .rule { font-size: 12.5px; border: 1px solid var(--line);
  border-radius: 4px; padding: 0 5px; margin-left: 4px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); } .limit { stroke: var(--bad); stroke-dasharray: 4 4; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.own { stroke: var(--own); stroke-width: 5; opacity: .45; } .other { stroke: var(--other); }
.third { stroke: var(--good); stroke-dasharray: 5 4; } .apart { stroke: var(--ink); }
.key { display: flex; flex-wrap: wrap; gap: 18px; color: var(--soft); font-size: 13px; }
.key i { display: inline-block; width: 22px; height: 0; border-top: 3px solid; margin-right: 6px;
  vertical-align: 4px; }
.heat { display: grid; grid-template-columns: minmax(80px, 230px) 1fr; gap: 0 10px;
  grid-template-rows: minmax(0, 1fr); }
.heat img { width: 100%; height: 100%; min-height: 0; display: block;
  image-rendering: pixelated; border: 1px solid var(--line); }
.heat ol { list-style: none; margin: 0; padding: 0; display: flex; flex-direction: column;
  font-size: 11px; color: var(--soft); text-align: right; }
.heat li { flex: 1 1 0; min-height: 0; line-height: 1; overflow: hidden; white-space: nowrap;
  display: flex; align-items: center; justify-content: flex-end; }
.scale { display: flex; height: 12px; max-width: 420px; margin: 8px 0 2px; }
.scale i { flex: 1; } .ends { display: flex; justify-content: space-between; max-width: 420px;
  font-size: 12px; color: var(--soft); }
.under { min-height: 1.5em; font-size: 13px; color: var(--soft); }
.bar { display: flex; height: 14px; border-radius: 3px; overflow: hidden; min-width: 160px;
  background: var(--line); }
.bar i { background: var(--own); border-right: 1px solid var(--back); }
.bar i:nth-child(even) { background: var(--other); } .bar i.lost { background: var(--bad); }
table.code { width: 100%; border-collapse: collapse; table-layout: fixed; }
table.code td { padding: 0 8px; white-space: pre-wrap; overflow-wrap: anywhere;
  vertical-align: top; }
table.code td.n { width: 46px; text-align: right; color: var(--soft); user-select: none;
  white-space: nowrap; } td.old { background: var(--old); } td.new { background: var(--new); }
td.none { background: var(--panel); } mark { color: inherit; border-radius: 2px; }
.old mark { background: var(--oldmark); } .new mark { background: var(--newmark); }
.diff { border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
summary, .gap { background: var(--panel); color: var(--soft); padding: 2px 12px; margin: 0;
  cursor: pointer; font-size: 12.5px; border-block: 1px solid var(--line); }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px;
  padding: 12px; overflow-x: auto; }
@media (max-width: 640px) { main { padding: 18px 12px; }
  .heat { grid-template-columns: 90px 1fr; } }
@media print { .finding, .card, svg { break-inside: avoid; } }
"""

SCRIPT = """
for (const heat of document.querySelectorAll(".heat")) {
  const picture = heat.querySelector("img"), data = JSON.parse(heat.dataset.values);
  const line = heat.nextElementSibling;
  picture.addEventListener("mousemove", event => {
    const box = picture.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / box.height * data.names.length);
    const step = Math.floor((event.clientX - box.left) / box.width * data.steps);
    if (!data.names[row] || step < 0 || step >= data.steps) return;
    const level = data.levels.charCodeAt(row * data.steps + step) - 48;
    const size = level === 0 ? "equal" : level > 34 ? "no value"
      : "about " + Math.pow(10, level / 2 - 16).toExponential(0);
    line.textContent = data.names[row] + ", step " + (step + 1) + ": " + size;
  });
  picture.addEventListener("mouseleave", () => { line.textContent = ""; });
}
"""
