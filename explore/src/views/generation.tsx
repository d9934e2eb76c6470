// A model reads a prompt and goes on, one step at a time; with and without a cache.

import { useEffect, useMemo, useState } from "preact/hooks";
import { type Recording, floats } from "../data";
import { sees } from "../mask/evaluate";
import { type Mask, select } from "../mask/node";
import { parse } from "../mask/text";
import { type Language, why } from "../mask/why";
import { type Words, count, percent } from "../words";
import { HIDDEN, Heat, depth, share, signed } from "./heat";

type Props = { say: Words; recording?: Recording; language: Language };

export function GenerationView({ say, recording, language }: Props) {
  if (!recording) return <Missing text={say.noRecording} command="hitherto explore runs/demo --out page.html" />;
  return <Player say={say} recording={recording} language={language} />;
}

export function Missing({ text, command }: { text: string; command: string }) {
  return <div class="missing"><p>{text}</p><pre>{command}</pre></div>;
}

function Player({ say, recording, language }: Required<Props>) {
  const { steps, tokens, masks, heads } = recording;
  const [at, setAt] = useState(0);
  const [playing, setPlaying] = useState(false);
  const [layer, setLayer] = useState(() => forgetful(recording));
  const [head, setHead] = useState(-1);
  const [picked, setPicked] = useState<[number, number] | null>(null);
  const step = steps[at];
  const row = picked && picked[0] < step.rows[1] ? picked[0] : step.rows[1] - 1;

  useEffect(() => {
    if (!playing) return;
    const timer = setTimeout(() => (at + 1 < steps.length ? setAt(at + 1) : setPlaying(false)), 900);
    return () => clearTimeout(timer);
  }, [playing, at]);
  const go = (to: number) => {
    setPlaying(false);
    setPicked(null);
    setAt(Math.max(0, Math.min(to, steps.length - 1)));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (/INPUT|SELECT|BUTTON/.test((event.target as HTMLElement).tagName)) return;
    const move = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: steps.length - 1 }[event.key];
    if (move !== undefined) go(move);
    else if (event.key === " ") setPlaying(!playing);
    else return;
    event.preventDefault();
  };
  const size = steps.at(-1)!.rows[1];
  const { scores, weights } = useMemo(() => meanOf(recording, layer, head, size), [recording, layer, head]);
  const mask = useMemo(() => select(parse(masks[layer]), 0, Math.max(head, 0)), [masks, layer, head]);
  const most = useMemo(() => scores.reduce((m, x) => Math.max(m, Math.abs(x)), 0), [scores]);
  const stop = step.rows[1];
  const prefill = step.rows[1] - step.rows[0] > 1 || at === 0;
  const weight = (q: number, k: number) => weights[q * size + k];
  const cell = (q: number, k: number) => {
    if (k > q && !sees(mask, q, k)) return null;
    return sees(mask, q, k) ? { color: share(weight(q, k)) } : { color: HIDDEN, striped: true };
  };
  const held = (k: number) => step.cache[layer].held.some(([a, b]) => a <= k && k < b);
  const kept = step.cache[layer].held.reduce((n, [a, b]) => n + b - a, 0);
  return (
    <div class="player" onKeyDown={onKeyDown} tabIndex={-1}>
      <div class="transport" role="group" aria-label={say.step}>
        <button onClick={() => go(at - 1)} aria-label={say.back} title={say.back} disabled={at === 0}>◂</button>
        <button class="main" id="play" onClick={() => (at + 1 === steps.length && !playing ? (setAt(0), setPlaying(true)) : setPlaying(!playing))}>
          {playing ? say.pause : say.play}</button>
        <button onClick={() => go(at + 1)} id="next" aria-label={say.next} title={say.next} disabled={at + 1 === steps.length}>▸</button>
        <input type="range" id="scrub" min={0} max={steps.length - 1} value={at} aria-label={say.step}
          onInput={(e) => go(Number(e.currentTarget.value))} />
        <label>{say.layer}
          <select id="layer" value={layer} onChange={(e) => setLayer(Number(e.currentTarget.value))}>
            {masks.map((text, i) => <option value={i} key={i}>{`${i + 1}: ${text}`}</option>)}
          </select>
        </label>
        <label>{say.head}
          <select id="head" value={head} onChange={(e) => setHead(Number(e.currentTarget.value))}>
            <option value={-1}>{say.allHeads}</option>
            {Array.from({ length: heads }, (_, i) => <option value={i} key={i}>{i + 1}</option>)}
          </select>
        </label>
      </div>
      <p class="tokens" aria-label={say.token}>
        {tokens.map((token, i) => (
          <span key={i} title={`${say.position} ${i}`}
            class={[i >= step.rows[0] && i < stop ? "now" : i < stop ? "past" : i === stop ? "next" : "later", i < recording.prompt ? "prompt" : "", i === row ? "at" : ""].join(" ")}
            style={i < stop && sees(mask, row, i) ? { boxShadow: `inset 0 -0.35em 0 ${share(weight(row, i))}` } : undefined}>
            {visible(token)}</span>
        ))}
      </p>
      <h2 id="step">{`${say.step} ${at + 1} / ${steps.length} · `}{prefill ? say.prefill(step.rows[1] - step.rows[0]) : say.decode(step.rows[0])}</h2>
      <p>{prefill ? say.prefillSays : say.decodeSays}</p>
      <div class="side">
        <figure>
          <figcaption><b>{say.withoutCache}</b> {say.withoutSays(count(stop * stop))}</figcaption>
          <Heat id="without" rows={stop} columns={stop} cell={cell} row={row} size={340} label={say.withoutCache}
            onPick={(q, k) => setPicked([q, k])} />
        </figure>
        <figure>
          <figcaption><b>{say.withCache}</b> {prefill ? say.prefillWith(count(stop * stop)) : say.withSays(count(kept))}</figcaption>
          <Heat id="with" rows={stop} columns={stop} size={340} label={say.withCache} row={prefill ? row : stop - 1}
            onPick={(q, k) => setPicked([q, k])}
            cell={(q, k) => {
              if (q >= step.rows[0] && (prefill || held(k))) return cell(q, k);
              return q < step.rows[0] && k <= q ? { color: "rgba(128, 128, 128, .08)" } : null;
            }} />
          <CacheStrip say={say} positions={stop} held={held} kept={kept} nbytes={step.cache[layer].nbytes} />
        </figure>
      </div>
      <p class="small" id="difference">{say.same(step.difference.toExponential(1))}</p>
      <Stages say={say} tokens={tokens} row={row} stop={stop} mask={mask} language={language} most={most}
        score={(k) => scores[row * size + k]} weight={(k) => weight(row, k)} />
      <section>
        <h3>{say.candidates}</h3>
        <ol class="candidates" id="candidates">
          {step.candidates.map(({ text, share: part }) => (
            <li key={text} class={text === step.chosen ? "chosen" : ""}>
              <code>{visible(text)}</code><span class="bar"><i style={{ width: `${100 * part}%` }} /></span>{percent(part)}
              {text === step.chosen && <em>{say.chosen}</em>}
            </li>
          ))}
        </ol>
      </section>
    </div>
  );
}

function CacheStrip({ say, positions, held, kept, nbytes }: { say: Words; positions: number; held: (k: number) => boolean; kept: number; nbytes: number }) {
  return (
    <div class="cache" id="cache" role="img" aria-label={`${say.cache}: ${say.held(kept, positions)}`}>
      <div class="slots">
        {Array.from({ length: positions }, (_, k) => <i key={k} class={held(k) ? "held" : "gone"} title={`${say.position} ${k}: ${held(k) ? say.heldSays : say.forgotten}`} />)}
      </div>
      <p class="small"><b>{say.cache}</b> {say.held(kept, positions)} · {count(nbytes)} {say.bytes}</p>
    </div>
  );
}

type StagesProps = {
  say: Words; tokens: string[]; row: number; stop: number; mask: Mask; language: Language; most: number;
  score: (k: number) => number; weight: (k: number) => number;
};

/** One row of attention from its scores to its weights, as a table. */
function Stages({ say, tokens, row, stop, mask, language, most, score, weight }: StagesProps) {
  return (
    <section>
      <h3>{say.stages}: {say.stage(visible(tokens[row]))} ({say.position} {row})</h3>
      <div class="scroll" tabIndex={0}>
        <table class="stages" id="stages">
          <tbody>
            <tr><th scope="row">{say.token}</th>{range(stop).map((k) => <td key={k}><code>{visible(tokens[k])}</code></td>)}</tr>
            <tr><th scope="row">{say.score}</th>{range(stop).map((k) => (
              <td key={k} style={{ background: signed(score(k), most), color: ink(Math.abs(score(k)) / most) }}>{score(k).toFixed(1)}</td>))}</tr>
            <tr><th scope="row">{say.masked}</th>{range(stop).map((k) => (
              <td key={k} class={sees(mask, row, k) ? "yes" : "no"} title={why(mask, row, k, language)}>{sees(mask, row, k) ? "✓" : "−∞"}</td>))}</tr>
            <tr><th scope="row">{say.weight}</th>{range(stop).map((k) => (
              <td key={k} style={{ background: share(weight(k)), color: ink(depth(weight(k))) }}>{fraction(weight(k))}</td>))}</tr>
          </tbody>
        </table>
      </div>
    </section>
  );
}

const range = (n: number) => Array.from({ length: n }, (_, i) => i);
const ink = (deep: number) => (deep > 0.55 ? "#fff" : undefined);

const fraction = (x: number) => (x === 0 ? "0" : x < 0.01 ? "<.01" : x.toFixed(2));

/** One head, or the mean of all. */
function meanOf(recording: Recording, layer: number, head: number, size: number): { scores: Float32Array; weights: Float32Array } {
  const cells = size * size;
  const [scores, weights] = [floats(recording.layers[layer].scores), floats(recording.layers[layer].weights)];
  const one = (all: Float32Array) => {
    if (head >= 0) return all.subarray(head * cells, (head + 1) * cells);
    return new Float32Array(cells).map((_, i) => range(recording.heads).reduce((sum, h) => sum + all[h * cells + i], 0) / recording.heads);
  };
  return { scores: one(scores), weights: one(weights) };
}

/** The last layer whose cache forgets something, so that it is seen; else the last. */
function forgetful({ steps, layers }: Recording): number {
  const { rows, cache } = steps.at(-1)!;
  const kept = cache.map(({ held }) => held.reduce((n, [a, b]) => n + b - a, 0));
  const found = kept.findLastIndex((n) => n < rows[1]);
  return found >= 0 ? found : layers.length - 1;
}

/** A token with what cannot be seen made visible. */
export function visible(token: string): string {
  return token.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
}
