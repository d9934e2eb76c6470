// Type a mask, see it at once, ask it.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Given } from "../data";
import { bind } from "../mask/bind";
import { DARK, LIGHT, type Layer, type Palette, compared, layers } from "../mask/layers";
import { type Mask, MaskError, axes, select } from "../mask/node";
import { difference, facts, tiles } from "../mask/questions";
import type { Grid, Spans } from "../mask/spans";
import { parse, spell } from "../mask/text";
import { type Language, why } from "../mask/why";
import { type Words, count, percent } from "../words";
import { Picture, type Pointed } from "./picture";

const EXAMPLES: [name: string, mask: string, length: string][] = [
  ["Causal", "Causal()", "64"],
  ["Window & sinks, 1M", "Causal() & (Window(131072) | Prefix(16384))", "1M"],
  ["Packed documents", "Causal() & Segments.from_lengths([7, 12, 5, 16, 24])", "64"],
  ["Prefix-LM", "Causal() | Prefix(12)", "48"],
  ["Image block", "Causal() | Segments([-1, -1, -1, 0, 0, 0, 0, -1, -1, 1, 1, 1, -1, -1])", "14"],
  ["Chunks (Llama 4)", "Causal() & Chunks(8192)", "64k"],
  ["Longformer", "Band(6, 6) | Keys(range(0, 3)) | Queries(range(0, 3))", "64"],
  ["BigBird", "Band(4, 4) | Keys(range(0, 4)) | Queries(range(0, 4)) | RandomBlocks(4, 2)", "64"],
  ["Dilated", "Dilated(8, 4)", "64"],
  ["Speculative tree", "Causal() & Tree([-1, 0, 0, 1, 1, 2], 8)", "14"],
  ["Layers of Gemma 3", "PerHead([Causal() & Window(512), Causal()])", "4k"],
];

type Props = { say: Words; language: Language; given?: Given; dark: boolean };
type Bound = { mask: Mask; whole: Mask; seen: Spans; layers: Layer[]; other?: Spans };

export function Bench({ say, language, given, dark }: Props) {
  const [text, setText] = useState(given?.text ?? EXAMPLES[1][1]);
  const [other, setOther] = useState("");
  const [queries, setQueries] = useState(spellLength(given?.queries ?? 2 ** 20));
  const [keys, setKeys] = useState(given && given.keys !== given.queries ? spellLength(given.keys) : "");
  const [start, setStart] = useState(given?.start ? String(given.start) : "");
  const [block, setBlock] = useState("128");
  const [[batch, head], setAxes] = useState([0, 0]);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [copied, setCopied] = useState(false);
  const [last, setLast] = useState<Bound | null>(null);

  const result = useMemo(() => attempt(() => bound(text, other, gridOf(queries, keys, start), batch, head, dark ? DARK : LIGHT)),
    [text, other, queries, keys, start, batch, head, dark]);
  useEffect(() => {
    if (result.value) setLast(result.value);
  }, [result]);
  const shown = result.value ?? last;
  const size = attempt(() => readLength(block, 1));
  const choose = (index: number) => {
    if (index < 0) return;
    const [, mask, length] = EXAMPLES[index];
    setText(mask);
    setQueries(length);
    setKeys("");
    setStart("");
    setAxes([0, 0]);
  };
  const copy = async () => {
    await copyText(python(text, queries, keys, start));
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  const sizes = shown ? axes(shown.whole) : [0, 0];
  return (
    <div class="bench">
      <section class="controls">
        <label>{say.examples}
          <select id="examples" onChange={(e) => choose(Number(e.currentTarget.value))}>
            <option value={-1}>{say.choose}</option>
            {EXAMPLES.map(([name], i) => <option value={i} key={name}>{name}</option>)}
          </select>
        </label>
        <label>{say.typed}
          <textarea id="mask" rows={3} spellcheck={false} autocomplete="off" value={text} aria-invalid={Boolean(result.error)}
            aria-describedby="error" onInput={(e) => setText(e.currentTarget.value)} />
        </label>
        <p class="error" id="error" role="alert">{result.error && <Complaint error={result.error} text={text} />}</p>
        <div class="row">
          <Field id="queries" label={say.queries} value={queries} set={setQueries} />
          <Field id="keys" label={say.keys} value={keys} set={setKeys} hint={queries} />
          <Field id="start" label={say.start} value={start} set={setStart} hint={shown ? String(shown.seen.grid.qStart) : "0"} />
          <Field id="block" label={say.block} value={block} set={setBlock} />
        </div>
        {(sizes[0] > 1 || sizes[1] > 1) && (
          <div class="row">
            {sizes[0] > 1 && <Pick label={say.batch} size={sizes[0]} value={batch} set={(b) => setAxes([b, head])} />}
            {sizes[1] > 1 && <Pick label={say.head} size={sizes[1]} value={head} set={(h) => setAxes([batch, h])} />}
          </div>
        )}
        <label>{say.compare}
          <textarea id="compare" rows={1} spellcheck={false} value={other} placeholder={say.nothing} onInput={(e) => setOther(e.currentTarget.value)} />
        </label>
        <button class="main" onClick={copy}>{copied ? say.copied : say.copy}</button>
        {shown && <FactList say={say} shown={shown} block={size.value ?? 128} />}
      </section>
      <section class="stage">
        {shown && (
          <>
            <Picture say={say} layers={shown.layers} seen={shown.seen} dark={dark} onPoint={setPointed}
              label={say.picture(spell(shown.mask).slice(0, 120), count(shown.seen.grid.qLen), count(shown.seen.grid.kLen))}
              pointed={pointed ? told(pointed, shown, say, language) : ""} />
            <Legend say={say} layers={shown.layers} />
          </>
        )}
      </section>
      {given?.received && <Received say={say} given={given} />}
    </div>
  );
}

/** What other libraries would get for the mask that the page was written with. */
function Received({ say, given }: { say: Words; given: Given }) {
  const found = given.received!;
  const able = found.filter((one) => one.exact);
  return (
    <details class="received" id="received">
      <summary>{say.received(able.length, found.length)}</summary>
      <p class="small">{say.receivedFor(given.text.slice(0, 160), count(given.queries), count(given.keys))}</p>
      <div class="scroll" tabIndex={0}>
        <table>
          <tbody>
            {found.map(({ target, exact, text }) => (
              <tr key={target}><th scope="row">{target}</th><td class={exact ? "yes" : "no"}>{exact ? say.exact : say.refused}</td><td><code>{text || say.anyMask}</code></td></tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function bound(text: string, other: string, grid: Grid, batch: number, head: number, palette: Palette): Bound {
  const whole = parse(text);
  const [batches, heads] = axes(whole);
  const mask = select(whole, Math.min(batch, Math.max(batches - 1, 0)), Math.min(head, Math.max(heads - 1, 0)));
  const seen = bind(mask, grid);
  if (!other.trim()) return { mask, whole, seen, layers: layers(mask, seen, palette) };
  const second = bind(select(parse(other), batch, head), grid);
  return { mask, whole, seen, other: second, layers: compared(seen, second, palette) };
}

type Attempt<T> = { value?: T; error?: MaskError };

function attempt<T>(work: () => T): Attempt<T> {
  try {
    return { value: work() };
  } catch (error) {
    if (error instanceof MaskError) return { error };
    throw error;
  }
}

function gridOf(queries: string, keys: string, start: string): Grid {
  const qLen = readLength(queries, 1);
  const kLen = keys.trim() ? readLength(keys, 1) : start.trim() ? readLength(start, 0) + qLen : qLen;
  const qStart = start.trim() ? readLength(start, 0) : Math.max(kLen - qLen, 0);
  return { qStart, qLen, kStart: 0, kLen };
}

function readLength(text: string, least: number): number {
  const found = /^\s*(\d[\d_,]*)\s*([kKmM]?)\s*$/.exec(text);
  const value = found ? Number(found[1].replace(/[_,]/g, "")) * { "": 1, k: 1024, m: 2 ** 20 }[found[2].toLowerCase()]! : NaN;
  if (!(value >= least) || value > 2 ** 26) {
    throw new MaskError(`${text.trim() || "an empty text"} is not a length; write ${least} or more, up to 64M: 4096, 64k or 1M`);
  }
  return value;
}

function spellLength(n: number): string {
  if (n && n % 2 ** 20 === 0) return `${n / 2 ** 20}M`;
  return n && n % 1024 === 0 ? `${n / 1024}k` : String(n);
}

function told(pointed: Pointed, shown: Bound, say: Words, language: Language): string {
  const [q, k] = [pointed.q, pointed.k].map(([a, b]) => Math.floor((a + b - 1) / 2));
  const one = pointed.q[1] - pointed.q[0] === 1 && pointed.k[1] - pointed.k[0] === 1;
  const because = why(shown.mask, q, k, language);
  if (one) return `${say.pointed(count(q), count(k))} · ${because}`;
  const span = ([a, b]: [number, number]) => (b - a === 1 ? count(a) : `${count(a)}–${count(b - 1)}`);
  return `${say.area(span(pointed.q), span(pointed.k), percent(pointed.share))}(${count(q)}, ${count(k)}) · ${because}`;
}

function python(text: string, queries: string, keys: string, start: string): string {
  const names = [...new Set(text.match(/\b[A-Z]\w*(?=[(.])/g) ?? [])].sort();
  const { qLen, kLen, qStart } = gridOf(queries, keys, start);
  return [
    `from hitherto import ${["bind", "draw", ...names].join(", ")}`,
    "",
    `mask = ${text.trim()}`,
    `spans = bind(mask, ${qLen}, ${kLen}, ${qStart})`,
    `print(draw(mask, ${qLen}, ${kLen}, q_start=${qStart}))`,
    "",
  ].join("\n");
}

async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page opened from disk may not use the clipboard; a selection may be copied anywhere.
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function Complaint({ error, text }: { error: MaskError; text: string }) {
  const [from, to] = error.at ?? [0, 0];
  const marked = error.at && !text.includes("\n");
  return (
    <>
      {error.message}
      {marked && <code>{text.slice(0, from)}<mark>{text.slice(from, to) || " "}</mark>{text.slice(to)}</code>}
    </>
  );
}

function FactList({ say, shown, block }: { say: Words; shown: Bound; block: number }) {
  const found = useMemo(() => facts(shown.seen), [shown.seen]);
  const [blocks, setBlocks] = useState<ReturnType<typeof tiles> | null>(null);
  useEffect(() => {
    const timer = setTimeout(() => setBlocks(countable(shown.seen, block) ? tiles(shown.seen, block) : null), 60);
    return () => clearTimeout(timer);
  }, [shown.seen, block]);
  const differs = useMemo(() => (shown.other ? difference(shown.seen, shown.other) : null), [shown]);
  const share = (n: number) => percent(n / Math.max(1, blocks!.full + blocks!.partial + blocks!.empty));
  return (
    <dl class="facts" id="facts">
      <Fact name={say.pairs}>{count(found.pairs)}</Fact>
      <Fact name={say.density}>{percent(found.density)}</Fact>
      <Fact name={say.empty}>{found.empty ? `${count(found.empty)}: ${found.firstEmpty.map(count).join(", ")}${found.empty > 5 ? ", …" : ""}` : say.none}</Fact>
      <Fact name={say.causal}>{found.future ? say.no(count(found.future[0]), count(found.future[1])) : say.yesHere}</Fact>
      <Fact name={say.tiles(`${block} × ${block}`)}>
        {blocks ? say.tilesSaid(share(blocks.empty), share(blocks.full), share(blocks.partial)) : "…"}
      </Fact>
      {differs && <Fact name={say.differ}>{differs.first ? say.differs(count(differs.pairs), count(differs.first[0]), count(differs.first[1])) : say.equal}</Fact>}
    </dl>
  );
}

/** Counting tiles visits one number a tile row and column: refuse what would take seconds. */
function countable(seen: Spans, block: number): boolean {
  return Math.ceil(seen.grid.qLen / block) * Math.ceil(seen.grid.kLen / block) <= 1e8;
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

export function Legend({ say, layers: found }: { say: Words; layers: Layer[] }) {
  const words = { visible: say.visible, ahead: say.ahead, hidden: say.hidden, both: say.both, onlyOne: say.onlyOne, onlyTwo: say.onlyTwo, neither: say.neither };
  return (
    <ul class="legend">
      {found.map((layer) => (
        <li key={layer.reason + layer.part}><i style={{ background: `rgb(${layer.color})` }} />
          {layer.part ? say.hiddenBy(layer.part) : words[layer.reason]}</li>
      ))}
    </ul>
  );
}

function Field({ id, label, value, set, hint }: { id: string; label: string; value: string; set: (v: string) => void; hint?: string }) {
  return (
    <label>{label}
      <input id={id} value={value} placeholder={hint} spellcheck={false} autocomplete="off" onInput={(e) => set(e.currentTarget.value)} />
    </label>
  );
}

function Pick({ label, size, value, set }: { label: string; size: number; value: number; set: (v: number) => void }) {
  return (
    <label>{label}
      <select onChange={(e) => set(Number(e.currentTarget.value))} value={Math.min(value, size - 1)}>
        {Array.from({ length: size }, (_, i) => <option value={i} key={i}>{i}</option>)}
      </select>
    </label>
  );
}
