// What the Python side puts into the page.

export type Data = {
  version: number;
  mask?: Given;
  generation?: Recording;
  training?: Lesson;
  audit?: Report;
};

/** A mask on a grid, and what other libraries would receive for it. */
export type Given = {
  text: string;
  queries: number;
  keys: number;
  start: number;
  received?: { target: string; exact: boolean; text: string }[];
};

/** float32 numbers, as base64 of their bytes, little-endian. */
export type Floats = string;

/** A prompt read and continued by a real model, everything its attention saw on the way. */
export type Recording = {
  model: string;
  masks: string[];
  heads: number;
  /** Prompt and continuation; the last token is chosen, and not read any more. */
  tokens: string[];
  prompt: number;
  /** Per layer: (heads, n, n) of scaled scores before the mask, and of weights after it. */
  layers: { scores: Floats; weights: Floats }[];
  steps: Step[];
};

export type Step = {
  /** Rows read in this step: first, and one past the last. */
  rows: [number, number];
  candidates: { text: string; share: number }[];
  chosen: string;
  /** Per layer: positions whose keys the cache holds while this step attends, and its bytes. */
  cache: { held: [number, number][]; nbytes: number }[];
  /** Largest difference between weights with the cache and without it. */
  difference: number;
};

/** Teacher forcing over one text, with its masks and without any. */
export type Lesson = {
  model: string;
  tokens: string[];
  masks: string[];
  /** nats of each target, token 1 on, under the model's masks. */
  masked: number[];
  /** The same with every mask replaced by Everything(). */
  unmasked: number[];
};

export type Finding = {
  kind: string;
  probe: string;
  mode: string;
  length: number;
  pair: [number, number] | null;
  size: number;
  module: string | null;
  cause: string;
  detail: string;
  next_step: string;
  reproducer: string;
};

export type Grid = { keys: number; rows: [number, number][][] };

export type Report = {
  subject: string;
  declared: string;
  verdict: string;
  findings: Finding[];
  covered: string[];
  not_covered: [string, string][];
  forwards: number;
  seconds: number;
  declared_map: Grid | null;
  measured_map: Grid | null;
};

export function read(): Data {
  const text = document.getElementById("hitherto-data")?.textContent?.trim();
  return text ? (JSON.parse(text) as Data) : { version: 1 };
}

export function floats(text: Floats): Float32Array {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}
