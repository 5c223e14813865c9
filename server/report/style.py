"""Style sheet of the pages: light and dark, phone, wide screen and paper."""

STYLE = """
:root { --ink: #1b1f24; --dim: #59626d; --paper: #ffffff; --line: #d5d9de; --soft: #f4f6f8; --mark: #0b5cad;
  --shade: #00000026; --good: #1a6b3c; --bad: #a33a00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --dim: #a3adb8; --paper: #14171b; --line: #3a4149; --soft: #1d2228; --mark: #7cbcf5;
    --shade: #ffffff33; --good: #7fd1a0; --bad: #ffac7a; }
}
* { box-sizing: border-box; }
html { scroll-behavior: auto; -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 64rem; padding: 1.25rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.75rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
section:first-child h2 { margin-top: 1.5rem; }
p, ul, dl { margin: 0 0 .9rem; max-width: 46rem; }
a { color: var(--mark); text-underline-offset: .15em; }
.skip { position: absolute; left: -999rem; } .skip:focus { position: static; }
.kind { color: var(--dim); margin: 0 0 .25rem; }
.question { font-size: 1.15rem; color: var(--dim); margin: .35rem 0 1.25rem; }
.verdict { max-width: 50rem; margin: 0 0 1.5rem; padding: .9rem 1rem .6rem; background: var(--soft);
  border-left: .3rem solid var(--dim); border-radius: .2rem; }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); }
.verdict, .verdict.good, .verdict.bad { color: var(--ink); }
.verdict .sentence { font-size: 1.1rem; } .verdict strong { font-size: 1.3rem; } strong.open { color: var(--ink); }
.bars { list-style: none; padding: 0; margin: 0 0 .6rem; max-width: none; display: grid;
  grid-template-columns: minmax(9rem, 16rem) minmax(4rem, 1fr) auto auto; gap: .3rem .8rem; align-items: center;
  grid-auto-flow: row dense; } .way { grid-column: 1; } .track { grid-column: 2; } .bars .value { grid-column: 3; }
.bars .saved { grid-column: 4; }
.bars li { display: contents; } .bars .value { text-align: right; font-variant-numeric: tabular-nums; }
.bars .saved { color: var(--dim); font-size: .88rem; white-space: nowrap; } .bars small { color: var(--dim); }
.track { display: block; background: var(--line); height: .8rem; border-radius: .15rem; }
.bar { display: block; height: 100%; background: var(--dim); border-radius: .15rem; }
.mine .bar { background: var(--mark); } .mine .way, .mine .value { font-weight: 700; } .far .bar { opacity: .45; }
.warnings { border-top: 1px solid var(--line); padding-top: .5rem; } .warnings p { font-weight: 600; margin: 0; }
.warnings ul { margin: .2rem 0 .3rem; padding-left: 1.2rem; }
.answer { font-size: 1.2rem; line-height: 1.45; border-left: .25rem solid var(--mark); padding: .15rem 0 .15rem .9rem;
  margin: 0 0 1.25rem; max-width: 48rem; }
.small { color: var(--dim); font-size: .9em; }
dl.facts { display: flex; flex-wrap: wrap; gap: .5rem 2rem; max-width: none; margin: 0; }
dl.facts dt { color: var(--dim); font-size: .85rem; } dl.facts dd { margin: 0; font-weight: 600; font-size: 1.1rem; }
dl.terms dt { font-weight: 600; } dl.terms dd { margin: 0 0 .6rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; padding: .6rem 0; margin: 1.25rem 0 0;
  border-top: 1px solid var(--line); font-size: .92rem; max-width: none; }
nav a { text-decoration: none; } nav a:hover { text-decoration: underline; }
.box { overflow-x: auto; margin: 0 0 1.5rem; scrollbar-width: thin; scrollbar-color: var(--dim) var(--soft);
  background: linear-gradient(to right, var(--paper) 40%, transparent) left / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--paper) 40%, transparent) right / 2.5rem 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / .9rem 100% no-repeat scroll,
    linear-gradient(to left, var(--shade), transparent) right / .9rem 100% no-repeat scroll; }
.tall { max-height: 26rem; overflow-y: auto; border: 1px solid var(--line); border-radius: .35rem;
  padding: 0 0 0 .6rem; }
.tall::-webkit-scrollbar { width: .65rem; height: .65rem; } .tall::-webkit-scrollbar-thumb { background: var(--dim);
  border-radius: .35rem; } .tall::-webkit-scrollbar-track { background: var(--soft); }
.tall thead th { position: sticky; top: 0; }
.box:focus-visible, pre:focus-visible, a:focus-visible, summary:focus-visible { outline: 2px solid var(--mark);
  outline-offset: 2px; }
table { border-collapse: collapse; overflow-wrap: normal; font-size: .95rem; }
.label { padding: .25rem 0 .1rem; margin: 0; font-weight: 600; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem 1.1rem .35rem 0; text-align: left; vertical-align: top;
  min-width: 3.5rem; }
th:last-child, td:last-child { padding-right: .35rem; }
thead th { background: var(--paper); border-bottom: 2px solid var(--line); color: var(--dim); font-weight: 600;
  font-size: .88rem; vertical-align: bottom; }
tbody th { font-weight: normal; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } td.n, .s, .best { white-space: nowrap; }
.wide { min-width: 13rem; max-width: 30rem; display: inline-block; } td.t { min-width: 14rem; }
tr.mine th, tr.mine td { font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); } .best { font-weight: 700; }
code, pre { font-family: ui-monospace, "SFMono-Regular", Consolas, "Liberation Mono", monospace; font-size: .88em; }
code.name { color: var(--dim); }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: .35rem; padding: .75rem; overflow-x: auto;
  margin: 0 0 1rem; overflow-wrap: normal; line-height: 1.5; }
figure { margin: 0 0 2rem; } figcaption { font-size: .95rem; max-width: 46rem; margin-top: .5rem; }
img { display: block; width: auto; max-width: min(100%, 50rem); height: auto; background: #ffffff;
  border: 1px solid var(--line); border-radius: .35rem; padding: .35rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 1.5rem; }
details { margin: 0 0 1rem; } summary { cursor: pointer; color: var(--mark); padding: .35rem 0; }
@media (max-width: 40rem) { .bars { grid-template-columns: minmax(0, 1fr) auto; }
  .bars { grid-auto-flow: row; } .bars .value { grid-column: 2; } .track { grid-column: 1 / 3; }
  .bars .saved { grid-column: 1 / 3; margin-bottom: .5rem; white-space: normal; } }
@media (max-width: 40rem) { .wide { min-width: 9rem; } .fields { min-width: 20rem; } .answer { font-size: 1.1rem; }
  td.s { white-space: normal; }
  th, td { padding-right: .7rem; min-width: 2.5rem; } }
@media screen and (prefers-color-scheme: dark) { img { border-color: #d5d9de; filter: invert(.9) hue-rotate(180deg); }
  img.shades { filter: brightness(.88); } }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .75rem; font-size: .9rem;
  color: var(--dim); }
@media (min-width: 72rem) {
  body { max-width: 82rem; display: grid; grid-template-columns: 12.5rem minmax(0, 1fr); gap: 0 2.5rem;
    grid-template-areas: "h h" "n m" "f f"; padding: 2rem 2rem 4rem; }
  .skip { grid-area: h; } header { grid-area: h; } main { grid-area: m; } footer { grid-area: f; }
  nav { grid-area: n; position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto;
    padding-top: 1.5rem; }
  nav ul { display: block; border: 0; margin: 0; padding: 0; } nav li { padding: .22rem 0; }
  main > section:first-child h2 { border-top: 0; }
}
@media print {
  :root { --ink: #000000; --dim: #333333; --paper: #ffffff; --line: #999999; --soft: #ffffff; --mark: #000000;
    --good: #000000; --bad: #000000; }
  @page { margin: 16mm 14mm; }
  * { print-color-adjust: exact; } .verdict { border: 1px solid var(--line); break-inside: avoid; }
  #figures { break-before: page; } .tall { border: 0; padding: 0; }
  .bar { background: #777777; } .mine .bar { background: #000000; } .track { background: #dddddd; }
  body { display: block; max-width: none; padding: 0; font-size: 10pt; } nav, .skip { display: none; }
  .box { background: none; } .box, .tall, pre { overflow: visible; max-height: none; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  table { font-size: 8.5pt; overflow-wrap: break-word; }
  table.many { font-size: 6.5pt; overflow-wrap: anywhere; } .many td.n, .many .s { white-space: normal; }
  th, td { min-width: 0; padding-right: .5rem; } .wide, td.t { min-width: 0; }
  .tall thead th { position: static; }
  dl.terms { display: grid; grid-template-columns: 9rem 1fr; gap: 0 1rem; max-width: none; font-size: 9pt; }
  dl.terms dd { margin: 0 0 .3rem; break-before: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; } summary { color: inherit; }
  tr, figure { break-inside: avoid; } h2, h3, .label, summary { break-after: avoid; }
  thead { display: table-header-group; } img { max-height: 12cm; border: 0; } a { color: inherit; }
}
"""
