// Masks as text: the grammar of `hitherto.mask.parse`, calls joined by & | ^ - ~. Nothing is run.

import { type Mask, MaskError, type Pair, type Range, SIGN, type Where, isPair } from "./node";

type Token = { text: string; kind: "name" | "number" | "string" | "sign" | "end"; at: number };
type Value = number | boolean | null | string | Mask | { range: Range[] } | Value[];
type Arguments = { list: Value[]; named: Map<string, Value>; at: [number, number]; name: string };

/** Read a mask. Throws a MaskError that knows its place in the text. */
export function parse(text: string): Mask {
  const reader = new Reader(text);
  const mask = reader.mask(reader.sum());
  reader.expect("end");
  return mask;
}

const TOKEN = /\s*(?:([A-Za-z_]\w*)|(\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|("[^"]*"|'[^']*')|([&|^~\-+()[\],.=]))/y;

class Reader {
  private tokens: Token[] = [];
  private next = 0;
  private depth = 0;

  constructor(text: string) {
    let at = 0;
    TOKEN.lastIndex = 0;
    while (text.slice(at).trim()) {
      TOKEN.lastIndex = at;
      const found = TOKEN.exec(text);
      if (!found) {
        const start = at + text.slice(at).search(/\S/);
        throw this.wrong(`cannot be read from "${text[start]}" on`, start, start + 1);
      }
      const kinds = ["name", "number", "string", "sign"] as const;
      const kind = kinds[found.slice(1).findIndex((part) => part !== undefined)];
      const body = found[0].trim();
      this.tokens.push({ text: body, kind, at: TOKEN.lastIndex - body.length });
      at = TOKEN.lastIndex;
    }
    this.tokens.push({ text: "the end", kind: "end", at: text.length });
  }

  private get token(): Token {
    return this.tokens[this.next];
  }

  private wrong(rule: string, start: number, stop: number): MaskError {
    const error = new MaskError(`mask text ${rule}`);
    error.at = [start, Math.max(stop, start + 1)];
    return error;
  }

  private takes(text: string): boolean {
    if (this.token.kind === "sign" && this.token.text === text) {
      this.next++;
      return true;
    }
    return false;
  }

  expect(text: string): void {
    const { token } = this;
    if (token.kind === "end" ? text === "end" : this.takes(text)) return;
    const wanted = text === "end" ? "& | ^ - or the end" : `"${text}"`;
    const stop = token.at + (token.kind === "end" ? 1 : token.text.length);
    throw this.wrong(`needs ${wanted} where ${token.text} stands`, token.at, stop);
  }

  // Python's order: - binds before &, then ^, then |.
  sum(): Value {
    return this.joined("|", "Or", () =>
      this.joined("^", "Xor", () =>
        this.joined("&", "And", () => this.joined("-", "Minus", () => this.unary()))));
  }

  private joined(sign: string, kind: Pair["kind"], part: () => Value): Value {
    const at = this.token.at;
    let left = part();
    while (this.takes(sign)) left = { kind, left: this.mask(left, at), right: this.mask(part()) };
    return left;
  }

  private unary(): Value {
    if (++this.depth > 500) throw this.wrong("is nested too deeply", this.token.at, this.token.at);
    try {
      if (this.takes("~")) return { kind: "Not", mask: this.mask(this.unary()) };
      if (this.takes("-")) {
        const value = this.unary();
        if (typeof value === "number") return -value;
        throw this.wrong("may negate numbers only; hide with ~ or a - b", this.token.at, this.token.at);
      }
      return this.atom();
    } finally {
      this.depth--;
    }
  }

  private atom(): Value {
    const { token } = this;
    if (this.takes("(")) {
      const items = this.items(")");
      return items.length === 1 && !items.trailing ? items[0] : items;
    }
    if (this.takes("[")) return this.items("]");
    this.next++;
    switch (token.kind) {
      case "number":
        return Number(token.text.replaceAll("_", ""));
      case "string":
        return token.text.slice(1, -1);
      case "name":
        return this.named(token);
    }
    this.next--;
    throw this.wrong(`needs a mask where ${token.text} stands`, token.at, token.at + 1);
  }

  private items(close: string): Value[] & { trailing?: boolean } {
    const items: Value[] & { trailing?: boolean } = [];
    while (!this.takes(close)) {
      items.push(this.sum());
      items.trailing = this.takes(",");
      if (!items.trailing) {
        this.expect(close);
        break;
      }
    }
    return items;
  }

  private named(token: Token): Value {
    const constant = { True: true, False: false, None: null }[token.text];
    if (constant !== undefined) return constant;
    let name = token.text;
    if (this.takes(".")) name += "." + this.tokens[this.next++].text;
    const build = CALLS[name];
    if (!build) {
      const near = nearest(name);
      const fix = near ? `did you mean ${near}?` : `use one of ${Object.keys(CALLS).join(", ")}`;
      const stop = token.at + name.length;
      throw this.wrong(`must call masks by name, not ${name}; ${fix}`, token.at, stop);
    }
    this.expect("(");
    const [list, named] = [[] as Value[], new Map<string, Value>()];
    while (!this.takes(")")) {
      const [key, equals] = [this.token, this.tokens[this.next + 1]];
      if (key.kind === "name" && equals?.text === "=") {
        this.next += 2;
        named.set(key.text, this.sum());
      } else list.push(this.sum());
      if (!this.takes(",")) {
        this.expect(")");
        break;
      }
    }
    const last = this.tokens[this.next - 1];
    const at: [number, number] = [token.at, last.at + last.text.length];
    try {
      return build({ list, named, at, name });
    } catch (error) {
      if (error instanceof MaskError) error.at ??= at;
      throw error;
    }
  }

  mask(value: Value, at = this.token.at): Mask {
    if (value && typeof value === "object" && "kind" in value) return value;
    throw this.wrong("may join masks only with & | ^ - ~", at, this.token.at);
  }
}

/** Match arguments to names; `defaults` are those that may be left out. */
function bound(args: Arguments, names: string[], defaults: Record<string, Value> = {}): Value[] {
  const values = names.map((name, i) => args.list[i] ?? args.named.get(name) ?? defaults[name]);
  const given = (name: string, i: number) => i < args.list.length || args.named.has(name);
  const missing = names.find((name, i) => !given(name, i) && !(name in defaults));
  const extra = [...args.named.keys()].find((name) => !names.includes(name) || names.indexOf(name) < args.list.length);
  if (missing || extra || args.list.length > names.length) {
    throw new MaskError(`${args.name} takes ${names.join(", ") || "nothing"}`);
  }
  return names.map((name, i) => {
    if (i < args.list.length) return args.list[i];
    return args.named.has(name) ? args.named.get(name)! : values[i];
  });
}

function int(argument: string, value: Value, least = -Infinity): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < least) {
    const rule = least === -Infinity ? "an int" : `an int >= ${least}`;
    throw new MaskError(`${argument} must be ${rule}, not ${said(value)}`);
  }
  if (Math.abs(value) >= 2 ** 48) throw new MaskError(`${argument} must be below 2**48`);
  return value;
}

function said(value: Value): string {
  return value && typeof value === "object" ? (Array.isArray(value) ? "a list" : "that") : String(value);
}

function numbers(argument: string, value: Value, whole: boolean, least = -Infinity): number[] {
  const fits = (x: Value): x is number =>
    typeof x === "number" && Number.isFinite(x) && (!whole || Number.isInteger(x)) && x >= least;
  if (!Array.isArray(value) || !value.length || !value.every(fits)) {
    const kind = whole ? `ints${least > -Infinity ? ` >= ${least}` : ""}` : "finite seconds";
    throw new MaskError(`${argument} must be a list of ${kind}`);
  }
  return value as number[];
}

/** One mask, or a batch of them where the data has one row a batch row. */
function batched(value: Value, build: (row: Value) => Mask): Mask {
  if (Array.isArray(value) && Array.isArray(value[0])) return { kind: "Batch", rows: value.map(build) };
  return build(value);
}

function where(argument: string, value: Value): Where {
  const list = Array.isArray(value) ? value : [value];
  if (list.every((part) => part && typeof part === "object" && "range" in part)) {
    return { ranges: merged(list.flatMap((part) => (part as { range: Range[] }).range)) };
  }
  if (Array.isArray(value) && value.length && value.every((part) => typeof part === "boolean")) {
    return { bools: value as boolean[] };
  }
  throw new MaskError(`${argument} must be a range, a list of ranges, or a bool for each position`);
}

function merged(ranges: Range[]): Range[] {
  const joined: Range[] = [];
  for (const [start, stop] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const last = joined.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], stop);
    else joined.push([start, stop]);
  }
  return joined;
}

function range(args: Arguments): Value {
  const [first, second, step] = args.list.map((x) => int("range", x));
  const [start, stop, by] = [second === undefined ? 0 : first, second ?? first, step ?? 1];
  if (first === undefined || by === 0) throw new MaskError("range takes start, stop and a step");
  if (by === 1) return { range: stop > start ? [[start, stop]] : [] };
  const count = Math.max(0, Math.ceil((stop - start) / by));
  if (count > 1 << 20) throw new MaskError("a range may skip at most 1,048,576 times");
  return { range: Array.from({ length: count }, (_, i) => [start + i * by, start + i * by + 1]) };
}

function segments(args: Arguments): Mask {
  const [ids, kIds] = bound(args, ["ids", "k_ids"], { k_ids: null });
  const read = (name: string, row: Value) => numbers(name, row, true, -1);
  const row = (x: Value, y: Value): Mask => ({
    kind: "Segments",
    ids: read("Segments.ids", x),
    kIds: y === null ? null : read("Segments.k_ids", y),
  });
  const many = (x: Value): x is Value[][] => Array.isArray(x) && Array.isArray(x[0]);
  const length = Math.max(many(ids) ? ids.length : 1, many(kIds) ? kIds.length : 1);
  const pick = (x: Value, i: number) => (many(x) ? x[x.length > 1 ? i : 0] : x);
  if (!many(ids) && !many(kIds)) return row(ids, kIds);
  return { kind: "Batch", rows: Array.from({ length }, (_, i) => row(pick(ids, i), pick(kIds, i))) };
}

function fromLengths(args: Arguments): Mask {
  const lengths = numbers(args.name, bound(args, ["lengths"])[0], true, 0);
  const total = lengths.reduce((sum, n) => sum + n, 0);
  if (total < 1 || total > 2 ** 26) throw new MaskError(`${args.name} must sum to 1 .. 67,108,864`);
  const ids = new Int32Array(total);
  let at = 0;
  lengths.forEach((n, i) => ids.fill(i, at, (at += n)));
  return { kind: "Segments", ids, kIds: null };
}

function padded(args: Arguments): Mask {
  const [lengths, side, width] = bound(args, ["lengths", "side", "width"], { side: "right", width: null });
  const sizes = numbers(args.name, lengths, true, 0);
  const total = width === null ? Math.max(...sizes) : int("Segments.padded(width)", width, 0);
  if (side !== "left" && side !== "right") throw new MaskError("Segments.padded(side) must be 'left' or 'right'");
  if (Math.max(...sizes) > total || total < 1) throw new MaskError(`${args.name} must lie within the width ${total}`);
  const rows = sizes.map((size): Mask => {
    const ids = new Int32Array(total).fill(-1);
    if (side === "right") ids.fill(0, 0, size);
    else ids.fill(0, total - size);
    return { kind: "Segments", ids, kIds: null };
  });
  return { kind: "Batch", rows };
}

function timeline(args: Arguments): Mask {
  const [q, k, ahead] = bound(args, ["q_time", "k_time", "lookahead"], { lookahead: 0 });
  if (typeof ahead !== "number" || !Number.isFinite(ahead)) throw new MaskError("Timeline.lookahead must be finite seconds");
  return {
    kind: "Timeline",
    qTime: numbers("Timeline.q_time", q, false),
    kTime: numbers("Timeline.k_time", k, false),
    lookahead: ahead,
  };
}

function tree(args: Arguments): Mask {
  const [value, start] = bound(args, ["parents", "start"]);
  const parents = numbers("Tree.parents", value, true, -1);
  for (let i = 0; i < parents.length; i++) {
    let [node, steps] = [i, 0];
    while (node >= 0) {
      if (parents[node] >= parents.length) throw new MaskError(`Tree.parents must be below ${parents.length}`);
      node = parents[node];
      if (++steps > parents.length) throw new MaskError("Tree.parents must not hold a cycle");
    }
  }
  return { kind: "Tree", parents, start: int("Tree.start", start, 0) };
}

function table(args: Arguments): Mask {
  const [value] = bound(args, ["array"]);
  const read = (x: Value): Mask => {
    const rows = x as Value[];
    const fine = Array.isArray(rows) && rows.length && rows.every((row) =>
      Array.isArray(row) && row.length === (rows[0] as Value[]).length && row.length &&
      row.every((cell) => typeof cell === "boolean"));
    if (!fine) throw new MaskError("Table.array must be rows of True and False, all of one length");
    return { kind: "Table", array: rows as boolean[][] };
  };
  const deep = (x: Value): number => (Array.isArray(x) ? 1 + deep(x[0]) : 0);
  const list = value as Value[];
  if (deep(value) === 3) return { kind: "Batch", rows: list.map(read) };
  if (deep(value) === 4) {
    const rows = list.map((row): Mask => ({ kind: "PerHead", masks: (row as Value[]).map(read) }));
    return { kind: "Batch", rows };
  }
  return read(value);
}

function band(args: Arguments): Mask {
  const [before, after] = bound(args, ["before", "after"]).map((x, i) =>
    x === null ? null : int(`Band.${i ? "after" : "before"}`, x));
  if (before !== null && after !== null && before + after < 0) {
    throw new MaskError("Band must have before + after >= 0; use Nothing() to hide every key");
  }
  return { kind: "Band", before, after };
}

function perHead(args: Arguments): Mask {
  const [masks] = bound(args, ["masks"]);
  const fine = (x: Value): x is Mask => Boolean(x && typeof x === "object" && "kind" in x);
  if (!Array.isArray(masks) || !masks.length || !masks.every(fine)) {
    throw new MaskError("PerHead.masks must be a list of masks, one a head");
  }
  return { kind: "PerHead", masks };
}

function shift(args: Arguments): Mask {
  const [mask, q, k] = bound(args, ["mask", "q", "k"], { q: 0, k: 0 });
  if (!(mask && typeof mask === "object" && "kind" in mask)) throw new MaskError("Shift.mask must be a mask");
  return { kind: "Shift", mask, q: int("Shift.q", q), k: int("Shift.k", k) };
}

const CALLS: Record<string, (args: Arguments) => Value> = {
  Everything: (args) => (bound(args, []), { kind: "Everything" }),
  Nothing: (args) => (bound(args, []), { kind: "Nothing" }),
  Causal: (args) => (bound(args, []), { kind: "Causal" }),
  Window: (args) => ({ kind: "Window", width: int("Window.width", bound(args, ["width"])[0], 1) }),
  Band: band,
  Prefix: (args) => ({ kind: "Prefix", length: int("Prefix.length", bound(args, ["length"])[0], 0) }),
  Chunks: (args) => {
    const [size, start] = bound(args, ["size", "start"], { start: 0 });
    return { kind: "Chunks", size: int("Chunks.size", size, 1), start: int("Chunks.start", start) };
  },
  BlockCausal: (args) => ({ kind: "BlockCausal", size: int("BlockCausal.size", bound(args, ["size"])[0], 1) }),
  Segments: segments,
  "Segments.from_lengths": fromLengths,
  "Segments.padded": padded,
  Queries: (args) => batched(bound(args, ["where"])[0], (x) => ({ kind: "Queries", where: where("Queries.where", x) })),
  Keys: (args) => batched(bound(args, ["where"])[0], (x) => ({ kind: "Keys", where: where("Keys.where", x) })),
  Timeline: timeline,
  Dilated: (args) => {
    const [width, step] = bound(args, ["width", "step"]);
    return { kind: "Dilated", width: int("Dilated.width", width, 1), step: int("Dilated.step", step, 1) };
  },
  Strided: (args) => ({ kind: "Strided", step: int("Strided.step", bound(args, ["step"])[0], 1) }),
  RandomBlocks: (args) => {
    const [block, count, seed] = bound(args, ["block", "count", "seed"], { seed: 0 });
    return {
      kind: "RandomBlocks",
      block: int("RandomBlocks.block", block, 1),
      count: int("RandomBlocks.count", count, 0),
      seed: int("RandomBlocks.seed", seed, 0),
    };
  },
  Tree: tree,
  Table: table,
  Shift: shift,
  PerHead: perHead,
  range,
};

function nearest(name: string): string | undefined {
  const wanted = name.toLowerCase();
  const far = (other: string) => distance(wanted, other.toLowerCase());
  const [best] = Object.keys(CALLS).sort((a, b) => far(a) - far(b));
  return far(best) <= Math.max(2, name.length / 3) ? best : undefined;
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    row = row.reduce<number[]>((made, up, j) => {
      made.push(j ? Math.min(up + 1, made[j - 1] + 1, row[j - 1] + Number(a[i - 1] !== b[j - 1])) : i);
      return made;
    }, []);
  }
  return row[b.length];
}

/** The mask as Python, as `str(mask)` has it. */
export function spell(mask: Mask): string {
  if (isPair(mask)) {
    const left = mask.left.kind === mask.kind ? spell(mask.left) : operand(mask.left);
    return `${left} ${SIGN[mask.kind]} ${operand(mask.right)}`;
  }
  switch (mask.kind) {
    case "Not":
      return `~${operand(mask.mask)}`;
    case "Segments":
      return spellSegments(mask.ids, mask.kIds);
    case "Batch":
      return `<${mask.rows.length} batch rows>`;
  }
  return `${mask.kind}(${argumentsOf(mask).join(", ")})`;
}

function operand(mask: Mask): string {
  return isPair(mask) ? `(${spell(mask)})` : spell(mask);
}

function spellSegments(ids: ArrayLike<number>, kIds: ArrayLike<number> | null): string {
  let lengths: number[] | null = ids[0] === 0 && kIds === null ? [0] : null;
  for (let i = 0; lengths && i < ids.length; i++) {
    const step = ids[i] - (i ? ids[i - 1] : 0);
    if (step !== 0 && step !== 1) lengths = null;
    else if (step === 1) lengths.push(1);
    else lengths[lengths.length - 1]++;
  }
  if (lengths) return `Segments.from_lengths([${lengths.join(", ")}])`;
  const list = (x: ArrayLike<number>) => `[${Array.from(x).join(", ")}]`;
  return `Segments(${list(ids)}${kIds ? `, k_ids=${list(kIds)}` : ""})`;
}

function argumentsOf(mask: Mask): string[] {
  const or = (name: string, value: number) => (value ? [`${name}=${value}`] : []);
  const py = (x: number | null) => (x === null ? "None" : String(x));
  const seconds = (list: number[]) => `[${list.map(float).join(", ")}]`;
  switch (mask.kind) {
    case "Window": return [py(mask.width)];
    case "Band": return [py(mask.before), py(mask.after)];
    case "Prefix": return [py(mask.length)];
    case "Chunks": return [py(mask.size), ...or("start", mask.start)];
    case "BlockCausal": return [py(mask.size)];
    case "Dilated": return [py(mask.width), py(mask.step)];
    case "Strided": return [py(mask.step)];
    case "RandomBlocks": return [py(mask.block), py(mask.count), ...or("seed", mask.seed)];
    case "Queries":
    case "Keys": return [spellWhere(mask.where)];
    case "Timeline": {
      const ahead = mask.lookahead ? [`lookahead=${float(mask.lookahead)}`] : [];
      return [seconds(mask.qTime), seconds(mask.kTime), ...ahead];
    }
    case "Tree": return [`[${mask.parents.join(", ")}]`, py(mask.start)];
    case "Table": return [`[${mask.array.map((row) => `[${row.map(bool).join(", ")}]`).join(", ")}]`];
    case "Shift": return [spell(mask.mask), ...or("q", mask.q), ...or("k", mask.k)];
    case "PerHead": return [`[${mask.masks.map(spell).join(", ")}]`];
  }
  return [];
}

function spellWhere(where: Where): string {
  if ("bools" in where) return `[${where.bools.map(bool).join(", ")}]`;
  const ranges = where.ranges.map(([start, stop]) => `range(${start}, ${stop})`);
  return ranges.length === 1 ? ranges[0] : `[${ranges.join(", ")}]`;
}

const bool = (x: boolean) => (x ? "True" : "False");
const float = (x: number) => (Number.isInteger(x) ? `${x}.0` : String(x));
