"""The report's style: calm, in the system's own type, light or dark as the reader's system is,
from 400 px wide up.
"""

CSS = """
:root {
  color-scheme: light dark;
  --page: #fbfbf9; --card: #ffffff; --ink: #22252a; --soft: #666c75; --line: #e3e4e0; --grid: #ecedea;
  --mark: #fdf5dc; --accent: #3d7cc4; --track: #ececea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #16181c; --card: #1e2126; --ink: #e4e6ea; --soft: #9aa1ab; --line: #31353c; --grid: #2b2f36;
    --mark: #37311c; --accent: #79aee8; --track: #31353c;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1120px; padding: 32px 24px 48px; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
header p.kicker { margin: 0 0 4px; color: var(--soft); font-size: 14px; letter-spacing: .02em; }
h1 { margin: 0 0 12px; font-size: clamp(19px, 2.4vw, 24px); line-height: 1.35; font-weight: 600; text-wrap: pretty; }
header > p { margin: 0 0 8px; text-wrap: pretty; }
header .runs { margin-top: 14px; flex-direction: column; }
.runs small { margin-left: 6px; }
h1.long { font-size: clamp(17px, 2vw, 19px); line-height: 1.45; }
h2 { margin: 0 0 4px; font-size: 20px; font-weight: 600; }
h3 { margin: 16px 0 0; font-size: 15px; font-weight: 600; }
section { margin: 24px 0 0; padding: 20px 24px 24px; background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
section > p { margin: 0 0 12px; color: var(--soft); font-size: 15px; max-width: 75ch; }
.runs { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 0; padding: 0; list-style: none; color: var(--soft); font-size: 15px; }
.chip { display: inline-block; width: 10px; height: 10px; margin-right: 7px; border-radius: 50%; }
.scroll { overflow-x: auto; margin: 12px -4px 0; padding: 0 4px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 7px 12px 7px 0; text-align: left; vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; padding-bottom: 4px; }
.settings tbody tr, .comparison tbody { border-top: 1px solid var(--line); }
.settings { table-layout: auto; }
.settings tbody th { color: var(--soft); font-weight: 400; white-space: nowrap; }
.settings td { overflow-wrap: anywhere; min-width: 90px; }
.settings thead th, .comparison th[scope=rowgroup] { color: var(--ink); font-weight: 600; overflow-wrap: anywhere; }
tr.differs { background: var(--mark); }
tr.differs th { color: var(--ink); }
tr.differs th::before { content: "≠"; display: inline-block; width: 20px; padding-left: 6px; color: var(--accent); font-weight: 600; }
.comparison td, .comparison thead th { min-width: 92px; }
.comparison td strong { font-weight: 600; white-space: nowrap; }
.comparison small { color: var(--soft); white-space: nowrap; font-size: 12px; }
.track { position: relative; display: block; width: 96px; height: 4px; margin: 5px 0 3px; border-radius: 2px; background: var(--track); }
.track i { position: absolute; top: 0; height: 4px; min-width: 2px; border-radius: 2px; background: var(--accent); opacity: .45; }
.track b { position: absolute; top: -2px; width: 8px; height: 8px; margin-left: -4px; border-radius: 50%; background: var(--accent); }
.empty { color: var(--soft); font-style: italic; }
details { margin-top: 12px; font-size: 14px; }
summary { cursor: pointer; color: var(--accent); }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); gap: 8px 24px; }
.grid > * { min-width: 0; }
figure { margin: 0; }
figure.chart figcaption { margin: 12px 0 0; color: var(--ink); font-size: 14px; font-weight: 600; }
figure.chart select {
  font: inherit; font-size: 13px; margin-left: 8px; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 6px;
}
.plot { width: 100%; overflow: hidden; }
.samples { display: flex; flex-wrap: wrap; gap: 14px; margin-top: 12px; }
.samples figure { width: 72px; }
.samples img {
  display: block; width: 72px; height: 72px; margin-bottom: 4px; border-radius: 6px;
  object-fit: contain; image-rendering: pixelated; background: var(--track);
}
.samples figcaption { color: var(--soft); font-size: 13px; text-align: center; overflow-wrap: anywhere; }
.samples .what { width: 56px; color: var(--soft); font-size: 13px; }
.samples .what span { display: flex; align-items: center; height: 72px; margin-bottom: 4px; }
footer { margin: 28px 4px 0; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
footer p { margin: 2px 0; }
code { font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
@media (max-width: 560px) {
  body { padding: 20px 12px 32px; }
  section { padding: 16px 14px 18px; border-radius: 10px; }
  .samples .what, .comparison thead { display: none; }
  .comparison, .comparison tbody { display: block; }
  .comparison tr { display: grid; grid-template-columns: 1fr 1fr; padding: 6px 0; }
  .comparison th[scope=rowgroup], .comparison tr > td:not([data-heading]) { grid-column: 1 / -1; }
  .comparison tr > td:not([data-heading]) { padding-bottom: 0; color: var(--soft); }
  .comparison td[data-heading]::before { content: attr(data-heading); display: block; color: var(--soft); font-size: 12px; }
}
"""
