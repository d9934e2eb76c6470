// A grid parted by reason, as `hitherto.picture.layers` parts it.

import { bind } from "./bind";
import { countRow, row } from "./density";
import { type Mask, MaskError } from "./node";
import { type Grid, OPERATORS, Spans, combine, full, oneRun } from "./spans";
import { name } from "./why";

export type Reason = "visible" | "ahead" | "hidden" | "both" | "onlyOne" | "onlyTwo" | "neither";
export type Layer = { reason: Reason; /** The part that hides, where one does. */ part: string; color: RGB; spans: Spans };
export type RGB = [number, number, number];

const VISIBLE: RGB = [0, 114, 178];
const AHEAD: RGB = [213, 94, 0];
const ONLY_TWO: RGB = [0, 158, 115];

/** Colours of a theme: safe for colour-blind eyes. Those of the light one are Python's. */
export type Palette = { visible: RGB; ahead: RGB; onlyTwo: RGB; hidden: RGB[] };
export const LIGHT: Palette = {
  visible: VISIBLE, ahead: AHEAD, onlyTwo: ONLY_TWO,
  hidden: [[226, 226, 226], [247, 229, 168], [238, 205, 224], [190, 230, 216], [205, 228, 246]],
};
export const DARK: Palette = {
  visible: [60, 158, 222], ahead: [236, 120, 30], onlyTwo: [20, 178, 132],
  hidden: [[52, 56, 61], [88, 76, 40], [84, 56, 74], [36, 78, 66], [40, 66, 90]],
};

/** What must all allow a cell: the masks joined by `&`, and `~b` of an `a - b`. */
export function parts(mask: Mask): Mask[] {
  if (mask.kind === "And") return [...parts(mask.left), ...parts(mask.right)];
  if (mask.kind === "Minus") return [...parts(mask.left), { kind: "Not", mask: mask.right }];
  return [mask];
}

/** Part the grid of one mask; a hidden cell belongs to the first part that hides it. */
export function layers(mask: Mask, seen: Spans, palette = LIGHT): Layer[] {
  const { grid } = seen;
  const past = bind({ kind: "Causal" }, grid);
  const found: Layer[] = [
    { reason: "visible", part: "", color: palette.visible, spans: combine(seen, past, OPERATORS.And) },
    { reason: "ahead", part: "", color: palette.ahead, spans: combine(seen, past, OPERATORS.Minus) },
  ];
  let left = combine(full(grid), seen, OPERATORS.Minus);
  parts(mask).forEach((part, index) => {
    const inside = quietly(part, grid);
    const hides = inside ? combine(left, inside, OPERATORS.Minus) : left;
    const color = palette.hidden[index % palette.hidden.length];
    found.push({ reason: "hidden", part: inside ? name(part) : "", color, spans: hides });
    left = inside ? combine(left, inside, OPERATORS.And) : oneRun(grid, []);
  });
  return found.filter((layer) => layer.spans.entries);
}

/** Part the grid by what two masks say of each cell. */
export function compared(one: Spans, two: Spans, palette = LIGHT): Layer[] {
  const of = (reason: Reason, color: RGB, keep: (a: boolean, b: boolean) => boolean): Layer =>
    ({ reason, part: "", color, spans: combine(full(one.grid), combine(one, two, keep), OPERATORS.And) });
  const none = combine(full(one.grid), combine(one, two, OPERATORS.Or), OPERATORS.Minus);
  return [
    of("both", palette.visible, OPERATORS.And),
    of("onlyOne", palette.ahead, (a, b) => a && !b),
    of("onlyTwo", palette.onlyTwo, (a, b) => !a && b),
    { reason: "neither", part: "", color: palette.hidden[0], spans: none } as Layer,
  ].filter((layer) => layer.spans.entries);
}

/** Null where a part alone would take too many spans, though not within the others. */
function quietly(mask: Mask, grid: Grid): Spans | null {
  try {
    return bind(mask, grid);
  } catch (error) {
    if (error instanceof MaskError) return null;
    throw error;
  }
}

/** Mix the layers' colours in each pixel by their exact share of its cells: RGBA. */
export function paint(found: Layer[], qEdges: Float64Array, kEdges: Float64Array): Uint8ClampedArray<ArrayBuffer> {
  const [rows, columns] = [qEdges.length - 1, kEdges.length - 1];
  const rgba = new Uint8ClampedArray(rows * columns * 4);
  const room = row(columns);
  const left = new Float64Array(columns);
  const mixed = new Float64Array(columns * 3);
  for (let i = 0; i < rows; i++) {
    const height = qEdges[i + 1] - qEdges[i];
    for (let j = 0; j < columns; j++) left[j] = height * (kEdges[j + 1] - kEdges[j]);
    mixed.fill(0);
    found.forEach((layer, index) => {
      // The layers hold each cell once, so the last one has what the others leave.
      const last = index === found.length - 1;
      const [r, g, b] = layer.color;
      const share = last ? left : countRow(layer.spans, qEdges[i], qEdges[i + 1], kEdges, room);
      for (let j = 0; j < columns; j++) {
        const cells = share[j];
        if (cells === 0) continue;
        const part = cells / (height * (kEdges[j + 1] - kEdges[j]));
        mixed[j * 3] += part * r;
        mixed[j * 3 + 1] += part * g;
        mixed[j * 3 + 2] += part * b;
        if (!last) left[j] -= cells;
      }
    });
    for (let j = 0, at = i * columns * 4; j < columns; j++, at += 4) {
      rgba[at] = mixed[j * 3];
      rgba[at + 1] = mixed[j * 3 + 1];
      rgba[at + 2] = mixed[j * 3 + 2];
      rgba[at + 3] = 255;
    }
  }
  return rgba;
}
