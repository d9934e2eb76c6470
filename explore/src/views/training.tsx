// Teacher forcing: all positions at once, labels shifted by one, the mask in between.

import { useMemo, useState } from "preact/hooks";
import type { Lesson } from "../data";
import { sees } from "../mask/evaluate";
import { select } from "../mask/node";
import { parse } from "../mask/text";
import type { Words } from "../words";
import { Missing, visible } from "./generation";
import { HIDDEN, Heat } from "./heat";

export function TrainingView({ say, lesson }: { say: Words; lesson?: Lesson }) {
  if (!lesson) return <Missing text={say.noRecording} command="hitherto explore runs/demo --out page.html" />;
  return <Shifted say={say} lesson={lesson} />;
}

function Shifted({ say, lesson }: { say: Words; lesson: Lesson }) {
  const { tokens, masks, masked, unmasked } = lesson;
  const [layer, setLayer] = useState(masks.length - 1);
  const [at, setAt] = useState(Math.min(8, masked.length - 1));
  const mask = useMemo(() => select(parse(masks[layer]), 0, 0), [masks, layer]);
  const n = tokens.length - 1;
  const most = Math.max(...masked, ...unmasked, 1e-9);
  const mean = (list: number[]) => (list.reduce((sum, x) => sum + x, 0) / list.length).toFixed(3);
  const bar = (nats: number, name: string) => (
    <td class={`loss ${name}`}><div><span class="bar"><i style={{ width: `${(100 * nats) / most}%` }} /></span>{nats.toFixed(2)}</div></td>
  );
  return (
    <div class="lesson">
      <p>{say.lessonSays(n)} <b>{say.shift}</b></p>
      <p>{say.lessonWithout}</p>
      <div class="transport">
        <label>{say.layer}
          <select id="lesson-layer" value={layer} onChange={(e) => setLayer(Number(e.currentTarget.value))}>
            {masks.map((text, i) => <option value={i} key={i}>{`${i + 1}: ${text}`}</option>)}
          </select>
        </label>
        <dl class="facts" id="means">
          <div><dt>{say.loss}, {say.lossMasked}</dt><dd>{mean(masked)} {say.nats}</dd></div>
          <div><dt>{say.loss}, {say.lossUnmasked}</dt><dd>{mean(unmasked)} {say.nats}</dd></div>
        </dl>
      </div>
      <div class="side">
        <figure>
          <figcaption>{say.lookedAt}</figcaption>
          <Heat rows={n} columns={n} size={420} row={at} label={say.lookedAt} onPick={(q) => setAt(q)}
            cell={(q, k) => (sees(mask, q, k) ? { color: k === q + 1 ? "#d55e00" : "#0072b2" } : { color: k === q + 1 ? "rgba(213, 94, 0, .45)" : HIDDEN, striped: true })} />
        </figure>
        <div class="scroll" tabIndex={0}>
          <table class="shift" id="shift">
            <thead><tr><th>t</th><th>{say.reads}</th><th /><th>{say.predicts}</th><th>{say.lossMasked}</th><th>{say.lossUnmasked}</th></tr></thead>
            <tbody>
              {masked.map((nats, t) => (
                <tr key={t} class={t === at ? "at" : ""} onClick={() => setAt(t)}>
                  <td>{t}</td><td><code>{visible(tokens[t])}</code></td><td aria-hidden="true">↘</td>
                  <td><code>{visible(tokens[t + 1])}</code></td>{bar(nats, "masked")}{bar(unmasked[t], "unmasked")}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </div>
  );
}
