// Small grids of numbers as squares of colour: scores, masks, weights.

import { useEffect, useRef } from "preact/hooks";

export type Cell = { color: string; striped?: boolean };
type Props = {
  rows: number; columns: number; cell: (row: number, column: number) => Cell | null;
  label: string; size?: number; row?: number; onPick?: (row: number, column: number) => void; id?: string;
};

/** A grid drawn on a canvas; a click or the arrow keys pick a cell. */
export function Heat({ rows, columns, cell, label, size = 300, row, onPick, id }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const unit = Math.max(2, Math.min(24, Math.floor(size / Math.max(rows, columns, 1))));
  useEffect(() => {
    const target = canvas.current!;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    [target.width, target.height] = [columns * unit * ratio, rows * unit * ratio];
    const pen = target.getContext("2d")!;
    pen.scale(ratio, ratio);
    const gap = unit > 5 ? 1 : 0;
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        const found = cell(i, j);
        if (!found) continue;
        pen.fillStyle = found.color;
        pen.fillRect(j * unit, i * unit, unit - gap, unit - gap);
        if (found.striped) stripe(pen, j * unit, i * unit, unit - gap);
      }
    }
    if (row !== undefined) {
      pen.strokeStyle = "#d55e00";
      pen.lineWidth = 2;
      pen.strokeRect(1, row * unit, columns * unit - 2, unit - gap);
    }
  });
  const pick = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    onPick?.(Math.min(rows - 1, Math.floor((y / box.height) * rows)), Math.min(columns - 1, Math.floor((x / box.width) * columns)));
  };
  return (
    <canvas ref={canvas} role="img" aria-label={label} id={id} onClick={pick}
      style={{ width: `${columns * unit}px`, height: `${rows * unit}px` }} />
  );
}

function stripe(pen: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  pen.strokeStyle = "rgba(120, 120, 120, .55)";
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(x, y + size);
  pen.lineTo(x + size, y);
  pen.stroke();
}

/** What a mask hides: grey over any ground. */
export const HIDDEN = "rgba(128, 128, 128, .25)";

/** How dark a weight is drawn: the root, so that small ones are seen. */
export const depth = (weight: number) => Math.sqrt(Math.max(0, Math.min(weight, 1)));

/** Blue over any ground, the deeper the more. */
export function share(weight: number): string {
  return `rgba(20, 125, 215, ${(0.07 + 0.93 * depth(weight)).toFixed(3)})`;
}

/** Vermilion below 0, nothing at it, blue above. */
export function signed(score: number, most: number): string {
  const t = Math.max(-1, Math.min(score / Math.max(most, 1e-9), 1));
  return `rgba(${t < 0 ? "213, 94, 0" : "0, 114, 190"}, ${Math.abs(t).toFixed(3)})`;
}
