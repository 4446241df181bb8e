"""How a report looks, by day and by night and on paper."""

STYLE = """
:root {
  --page: #fbfbfa; --card: #ffffff; --ink: #1c2024; --soft: #5c646d; --line: #dfe2e6; --accent: #0b5c94;
  --best: #e3f1e6; --best-ink: #14532d; --shade: #f1f3f5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1c2125; --ink: #e6e8ea; --soft: #a2abb3; --line: #343b42; --accent: #7cc0f0;
    --best: #1f3d2a; --best-ink: #b7ebc6; --shade: #23292e;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 2.5rem 1.5rem 5rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.35rem; margin: 2.8rem 0 .8rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
article > header > h2 { font-size: 1.7rem; border: 0; margin-top: 4.5rem; }
p, ul { max-width: 78ch; margin: .6rem 0; }
li { margin: .25rem 0; }
.lead { font-size: 1.1rem; color: var(--soft); }
.findings { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--accent);
  border-radius: 6px; padding: .6rem 1.2rem; margin: 1.4rem 0; }
.findings ul { margin: .3rem 0; padding-left: 1.1rem; max-width: 90ch; }
.facts { display: flex; flex-wrap: wrap; gap: .4rem 2rem; margin: 1.2rem 0; font-size: .85rem; }
.facts div { min-width: 6rem; }
.facts dt { color: var(--soft); }
.facts dd { margin: 0; }
nav ul { list-style: none; padding: 0; margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem;
  max-width: none; font-size: .92rem; }
a { color: var(--accent); }
.wide { overflow-x: auto; margin: 1rem 0 .4rem; }
table { border-collapse: collapse; font-size: .8rem; font-variant-numeric: tabular-nums; background: var(--card); }
caption { text-align: left; font-weight: 600; padding: 0 0 .5rem; font-size: .95rem; }
th, td { padding: .35rem .45rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid var(--line); background: var(--shade); vertical-align: bottom; }
table.results td, table.results thead th { text-align: right; }
table.results td { white-space: nowrap; }
table.results th:first-child { text-align: left; white-space: nowrap; font-weight: 500; position: sticky; left: 0;
  background: var(--card); }
table.results thead th:first-child { background: var(--shade); }
.beside { color: var(--soft); font-weight: 400; font-style: italic; }
.best { background: var(--best); color: var(--best-ink); }
.note, figcaption { color: var(--soft); font-size: .88rem; max-width: 90ch; }
figure { margin: 1.4rem 0; }
figure img { max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line); border-radius: 6px;
  padding: .5rem; }
pre { background: var(--shade); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem;
  overflow-x: auto; font-size: .85rem; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .92em; }
:not(pre) > code { background: var(--shade); border-radius: 3px; padding: .05em .3em; }
details { margin: .8rem 0; } summary { cursor: pointer; color: var(--accent); }
@media print { body { background: #fff; } nav { display: none; } section { break-inside: avoid-page; } }
"""
