// Why a query may or may not see a key: the sentences of `hitherto.why`, in two languages.

import { floor, sees } from "./evaluate";
import { type Mask, isPair } from "./node";
import { spell } from "./text";

const number = (x: number) => x.toLocaleString("en-US");

/** The words for each reason; English is what Python says. */
const EN = {
  visible: "visible", hidden: "hidden", colon: ": ", join: "; ",
  allows: (m: string) => `${m} allows it`,
  hides: (m: string) => `${m} hides it`,
  every: (m: string) => `${m} hides every key`,
  back: (n: number) => (n >= 0 ? `${number(n)} back` : `${number(-n)} ahead`),
  none: (gap: string, m: string) => `${gap}, ${m} allows none ahead`,
  most: (gap: string, m: string, n: number) => `${gap}, ${m} allows ${number(n)}`,
  band: (gap: string, m: string, before: number | null, after: number | null) =>
    `${gap}, ${m} allows from ${before === null ? "any distance back" : `${number(before)} back`} to ` +
    (after === null ? "any distance ahead" : `${number(after)} ahead`),
  dilated: (gap: string, m: string, step: number, most: number) =>
    `${gap}, ${m} allows multiples of ${number(step)} up to ${number(most)} back`,
  strided: (gap: string, m: string, step: number) => `${gap}, ${m} allows multiples of ${number(step)}`,
  prefix: (m: string, k: number, n: number) => `key ${number(k)} is not among the first ${number(n)}, ${m}`,
  chunks: (m: string, q: number, k: number) => `query in chunk ${number(q)}, key in ${number(k)}, ${m}`,
  blocks: (m: string, q: number, k: number) => `query in block ${number(q)}, key in later block ${number(k)}, ${m}`,
  segment: (m: string, q: number, k: number) =>
    `query in segment ${number(q)}, key in ${k >= 0 ? number(k) : "none"}, ${m}`,
  loose: (m: string, q: number, id: number) => `query ${number(q)} belongs to no segment (id ${id}), ${m}`,
  notQuery: (m: string, q: number) => `query ${number(q)} is not in ${m}`,
  notKey: (m: string, k: number) => `key ${number(k)} is not in ${m}`,
  time: (m: string, k: string, by: string) => `key at ${k} s, query sees up to ${by} s, ${m}`,
  tree: (m: string, k: number, before: boolean) =>
    `key ${number(k)} is ${before ? "of the tree, query before it" : "no ancestor of the query"}, ${m}`,
  minus: (m: string, taken: boolean, because: string) =>
    `- ${m} ${taken ? "takes it away" : "leaves it"} (${because})`,
  not: (m: string, seen: boolean, because: string) => `${m} ${seen ? "allows" : "hides"} it (${because})`,
  xor: (seen: boolean, a: string, b: string) =>
    `${seen ? "exactly one side allows it" : "both sides say the same"} (${a} ^ ${b})`,
  moved: (q: number, k: number, because: string) => `moved to query ${number(q)}, key ${number(k)}: ${because}`,
};

const ZH: typeof EN = {
  visible: "可见", hidden: "不可见", colon: "：", join: "；",
  allows: (m) => `${m} 允许`,
  hides: (m) => `${m} 遮住它`,
  every: (m) => `${m} 遮住所有键`,
  back: (n) => (n >= 0 ? `在其前 ${number(n)} 位` : `在其后 ${number(-n)} 位`),
  none: (gap, m) => `${gap}，${m} 不许看后面`,
  most: (gap, m, n) => `${gap}，${m} 至多允许 ${number(n)} 位`,
  band: (gap, m, before, after) =>
    `${gap}，${m} 允许${before === null ? "向前任意远" : `向前 ${number(before)} 位`}至` +
    (after === null ? "向后任意远" : `向后 ${number(after)} 位`),
  dilated: (gap, m, step, most) => `${gap}，${m} 只允许 ${number(step)} 的倍数，至多前 ${number(most)} 位`,
  strided: (gap, m, step) => `${gap}，${m} 只允许 ${number(step)} 的倍数`,
  prefix: (m, k, n) => `键 ${number(k)} 不在前 ${number(n)} 个之内，${m}`,
  chunks: (m, q, k) => `查询在第 ${number(q)} 块，键在第 ${number(k)} 块，${m}`,
  blocks: (m, q, k) => `查询在第 ${number(q)} 块，键在更后的第 ${number(k)} 块，${m}`,
  segment: (m, q, k) => `查询在段 ${number(q)}，键${k >= 0 ? `在段 ${number(k)}` : "不属于任何段"}，${m}`,
  loose: (m, q, id) => `查询 ${number(q)} 不属于任何段（编号 ${id}），${m}`,
  notQuery: (m, q) => `查询 ${number(q)} 不在 ${m} 之内`,
  notKey: (m, k) => `键 ${number(k)} 不在 ${m} 之内`,
  time: (m, k, by) => `键在 ${k} 秒，查询只看到 ${by} 秒，${m}`,
  tree: (m, k, before) => `键 ${number(k)} ${before ? "属于草稿树，查询在树之前" : "不是查询的祖先"}，${m}`,
  minus: (m, taken, because) => `减去的 ${m} ${taken ? "把它去掉" : "留下它"}（${because}）`,
  not: (m, seen, because) => `${m} ${seen ? "允许" : "遮住它"}（${because}）`,
  xor: (seen, a, b) => `${seen ? "恰有一边允许" : "两边说法相同"}（${a} ^ ${b}）`,
  moved: (q, k, because) => `移到查询 ${number(q)}、键 ${number(k)}：${because}`,
};

const PHRASES = { en: EN, zh: ZH };
export type Language = keyof typeof PHRASES;

/** "visible: ..." or "hidden: ...", the deciding parts first; of a mask without axes. */
export function why(mask: Mask, q: number, k: number, language: Language = "en"): string {
  const say = PHRASES[language];
  const verdict = sees(mask, q, k) ? say.visible : say.hidden;
  return verdict + say.colon + reasons(mask, q, k, say).join(say.join);
}

function reasons(mask: Mask, q: number, k: number, say: typeof EN): string[] {
  const because = (part: Mask, dq = 0, dk = 0) => reasons(part, q - dq, k - dk, say).join(say.join);
  const seen = sees(mask, q, k);
  if (isPair(mask)) {
    const { left, right } = mask;
    switch (mask.kind) {
      case "Xor":
        return [say.xor(seen, because(left), because(right))];
      case "Minus":
        if (!sees(left, q, k)) return reasons(left, q, k, say);
        return [say.minus(name(right), sees(right, q, k), because(right)), ...reasons(left, q, k, say)];
    }
    const agrees = (part: Mask) => sees(part, q, k) === seen;
    const parts = !agrees(left) && agrees(right) ? [right, left] : [left, right];
    return parts.flatMap((part) => reasons(part, q, k, say));
  }
  if (mask.kind === "Not") return [say.not(name(mask), seen, because(mask.mask))];
  if (mask.kind === "Shift") {
    return [say.moved(q - mask.q, k - mask.k, because(mask.mask, mask.q, mask.k))];
  }
  return [seen ? say.allows(name(mask)) : hiding(mask, q, k, say)];
}

function hiding(mask: Mask, q: number, k: number, say: typeof EN): string {
  const [said, gap] = [name(mask), say.back(q - k)];
  switch (mask.kind) {
    case "Nothing": return say.every(said);
    case "Causal": return say.none(gap, said);
    case "Window": return k <= q ? say.most(gap, said, mask.width - 1) : say.none(gap, said);
    case "Band": return say.band(gap, said, mask.before, mask.after);
    case "Dilated":
      if (mask.step === 1) return k <= q ? say.most(gap, said, mask.width - 1) : say.none(gap, said);
      return say.dilated(gap, said, mask.step, (mask.width - 1) * mask.step);
    case "Strided": return say.strided(gap, said, mask.step);
    case "Prefix": return say.prefix(said, k, mask.length);
    case "Chunks": return say.chunks(said, floor(q - mask.start, mask.size), floor(k - mask.start, mask.size));
    case "BlockCausal": return say.blocks(said, floor(q, mask.size), floor(k, mask.size));
    case "Segments": {
      const [mine, other] = [mask.ids[q], (mask.kIds ?? mask.ids)[k]];
      return mine < 0 ? say.loose(said, q, mine) : say.segment(said, mine, other);
    }
    case "Queries": return say.notQuery(said, q);
    case "Keys": return say.notKey(said, k);
    case "Timeline": return say.time(said, general(mask.kTime[k]), general(mask.qTime[q] + mask.lookahead));
    case "Tree": return say.tree(said, k, q < mask.start);
  }
  return say.hides(said);
}

/** Python's `:g`: six digits, no zeros behind. */
function general(x: number): string {
  const rounded = Number(x.toPrecision(6));
  const size = Math.abs(rounded);
  if (size && (size < 1e-4 || size >= 1e6)) {
    return rounded.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
  }
  return String(rounded);
}

/** A mask's text, without its data when that is long. */
export function name(mask: Mask): string {
  const length = mask.kind === "Segments" ? mask.ids.length : 0;
  const text = length > 100_000 ? "" : spell(mask);
  if (mask.kind === "Not" && text.length > 60) return `~${name(mask.mask)}`;
  return text && text.length <= 60 ? text : `${mask.kind}(...)`;
}
