// What a model says it sees, what it was measured to see, and where the two part.

import { useMemo, useState } from "preact/hooks";
import type { Finding, Grid, Report } from "../data";
import { type Words, count } from "../words";
import { Missing } from "./generation";
import { HIDDEN, Heat } from "./heat";

export function AuditView({ say, report }: { say: Words; report?: Report }) {
  if (!report) {
    return <Missing text={say.noReport} command={"hitherto audit my_package.model:tiny --json > report.json\nhitherto explore report.json --out page.html"} />;
  }
  return <Findings say={say} report={report} />;
}

const COLORS = { seen: "#0072b2", leak: "#d55e00", blind: "#f0c419", hidden: HIDDEN };

function Findings({ say, report }: { say: Words; report: Report }) {
  const { findings, declared_map: declared, measured_map: measured } = report;
  const [chosen, setChosen] = useState(0);
  const finding: Finding | undefined = findings[chosen];
  return (
    <div class="audit">
      <h2 id="verdict" class={report.verdict}>{report.subject}: {say.verdict[report.verdict] ?? report.verdict}</h2>
      <p>{say.declared}: <code>{report.declared}</code> · {say.cost(report.forwards, report.seconds.toFixed(1))}</p>
      {declared && measured && <Maps say={say} declared={declared} measured={measured} pair={finding?.pair ?? null} />}
      <div class="side">
        <section>
          <h3>{say.findings} ({findings.length})</h3>
          {!findings.length && <p>{say.noFindings}</p>}
          <ul class="findings" id="findings">
            {findings.map((found, i) => (
              <li key={i}><button aria-pressed={i === chosen} class={found.kind} onClick={() => setChosen(i)}>
                <b>{say.kinds[found.kind] ?? found.kind}</b> {found.detail} <small>{say.mode} {found.mode}, {say.lengthLabel} {found.length}</small></button></li>
            ))}
          </ul>
        </section>
        {finding && <Detail say={say} finding={finding} />}
      </div>
      <details><summary>{say.covered} ({report.covered.length})</summary><ul>{report.covered.map((line) => <li key={line}>{line}</li>)}</ul></details>
      <details open><summary>{say.notCovered} ({report.not_covered.length})</summary>
        <ul>{report.not_covered.map(([what, because]) => <li key={what}><b>{what}</b>: {because}</li>)}</ul></details>
    </div>
  );
}

function Detail({ say, finding }: { say: Words; finding: Finding }) {
  const { pair, module } = finding;
  const path = module?.replace(/\s*\(.*\)$/, "").split(".").filter(Boolean) ?? [];
  const kind = module?.match(/\((.*)\)$/)?.[1];
  return (
    <section class="detail" id="detail" aria-live="polite">
      <h3>{say.kinds[finding.kind] ?? finding.kind}: {finding.cause}</h3>
      {pair && <p>{finding.kind === "blind" ? say.pairBlind(...pair) : say.pairSays(...pair)}</p>}
      {module && (
        <p class="path" aria-label={say.path}>{say.path}: <span>model</span>
          {path.map((name, i) => <span key={i}> › <b class={i === path.length - 1 ? "fault" : ""}>{name}</b></span>)} {kind && <small>({kind})</small>}</p>
      )}
      <dl class="facts">
        <div><dt>{say.causeWord}</dt><dd>{finding.cause}</dd></div>
        <div><dt>{say.nextStep}</dt><dd>{finding.next_step}</dd></div>
        <div><dt>{say.probe}</dt><dd>{finding.probe}</dd></div>
      </dl>
      {finding.reproducer && <><h4>{say.reproduce}</h4><pre tabIndex={0}>{finding.reproducer}</pre></>}
    </section>
  );
}

function Maps({ say, declared, measured, pair }: { say: Words; declared: Grid; measured: Grid; pair: [number, number] | null }) {
  const [want, have] = useMemo(() => [dense(declared), dense(measured)], [declared, measured]);
  const [rows, columns] = [want.length, declared.keys];
  const row = pair && pair[0] < rows ? pair[0] : undefined;
  const plain = (grid: boolean[][]) => (q: number, k: number) => ({ color: grid[q][k] ? (k > q ? COLORS.leak : COLORS.seen) : COLORS.hidden });
  const differs = (q: number, k: number) => {
    if (want[q][k] === have[q][k]) return { color: want[q][k] ? "#9dc4de" : COLORS.hidden };
    return have[q][k] ? { color: COLORS.leak } : { color: COLORS.blind, striped: true };
  };
  const figure = (name: string, cell: typeof differs, said: string) => (
    <figure><figcaption><b>{name}</b> {said}</figcaption><Heat rows={rows} columns={columns} cell={cell} row={row} size={260} label={`${name}: ${said}`} /></figure>
  );
  const tally = (test: (q: number, k: number) => boolean) =>
    count(want.reduce((n, line, q) => n + line.filter((_, k) => test(q, k)).length, 0));
  return (
    <>
      <div class="side maps" id="maps">
        {figure(say.declared, plain(want), say.pairsOf(tally((q, k) => want[q][k])))}
        {figure(say.measured, plain(have), say.pairsOf(tally((q, k) => have[q][k])))}
        {figure(say.difference, differs, say.pairsOf(tally((q, k) => want[q][k] !== have[q][k])))}
      </div>
      <ul class="legend">
        <li><i style={{ background: COLORS.leak }} />{say.leak}</li>
        <li><i style={{ background: COLORS.blind }} />{say.blind}</li>
        <li><i style={{ background: "#9dc4de" }} />{say.agree}</li>
      </ul>
    </>
  );
}

function dense(grid: Grid): boolean[][] {
  return grid.rows.map((runs) => {
    const row = Array<boolean>(grid.keys).fill(false);
    for (const [start, stop] of runs) row.fill(true, start, stop);
    return row;
  });
}
