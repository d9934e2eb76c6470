// The picture of a grid: pan, zoom, point. Every pixel is painted anew from spans in each frame.

import { useEffect, useRef, useState } from "preact/hooks";
import { countRow, counts, edges, row } from "../mask/density";
import { type Layer, paint } from "../mask/layers";
import type { Spans } from "../mask/spans";
import { type Words, count } from "../words";

/** A part of the grid: rows [q0, q1), keys [k0, k1); ends need not be whole. */
export type View = { q0: number; q1: number; k0: number; k1: number };
export type Pointed = { q: [number, number]; k: [number, number]; share: number };

type Props = {
  say: Words; layers: Layer[]; seen: Spans; label: string; dark: boolean;
  onPoint: (pointed: Pointed | null) => void; pointed: string;
};

const MARGIN = { left: 58, top: 24, right: 62, bottom: 62 };
const SMALLEST = 4;

export function Picture({ say, layers, seen, label, dark, onPoint, pointed }: Props) {
  const { qStart, qLen, kLen } = seen.grid;
  const all: View = { q0: qStart, q1: qStart + qLen, k0: 0, k1: kLen };
  const canvas = useRef<HTMLCanvasElement>(null);
  const [view, setView] = useState(all);
  const [size, setSize] = useState(640);
  const [cursor, setCursor] = useState<[number, number] | null>(null);
  const pointers = useRef(new Map<number, [number, number]>());
  const grid = `${qStart},${qLen},${kLen}`;
  useEffect(() => {
    setView(all);
    setCursor(null);
    onPoint(null);
  }, [grid]);
  useEffect(() => {
    const box = canvas.current!.parentElement!;
    const fit = () => setSize(Math.max(260, Math.min(box.clientWidth, innerHeight * 0.82, 760)));
    fit();
    const watch = new ResizeObserver(fit);
    watch.observe(box);
    return () => watch.disconnect();
  }, []);
  const shape = plot(size, qLen, kLen);
  useEffect(() => {
    const frame = requestAnimationFrame(() => draw(canvas.current!, { say, layers, seen, view, shape, cursor, dark }));
    return () => cancelAnimationFrame(frame);
  }, [layers, view, shape.width, shape.height, cursor, dark, say]);

  const move = (next: View) => setView(kept(next, all));
  const zoom = (factor: number, at?: [number, number]) => {
    const [q, k] = at ?? [(view.q0 + view.q1) / 2, (view.k0 + view.k1) / 2];
    move({ q0: q + (view.q0 - q) * factor, q1: q + (view.q1 - q) * factor, k0: k + (view.k0 - k) * factor, k1: k + (view.k1 - k) * factor });
  };
  const place = (event: { clientX: number; clientY: number }): [number, number] => {
    const box = canvas.current!.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - MARGIN.left, event.clientY - box.top - MARGIN.top];
    return [view.q0 + (y / shape.height) * (view.q1 - view.q0), view.k0 + (x / shape.width) * (view.k1 - view.k0)];
  };
  const point = (q: number, k: number) => {
    if (q < view.q0 || q >= view.q1 || k < view.k0 || k >= view.k1) {
      setCursor(null);
      return onPoint(null);
    }
    const found = pixel(seen, view, shape, q, k);
    setCursor([q, k]);
    onPoint(found);
  };

  const onPointerDown = (event: PointerEvent) => {
    canvas.current!.setPointerCapture(event.pointerId);
    pointers.current.set(event.pointerId, [event.clientX, event.clientY]);
    point(...place(event));
  };
  const onPointerMove = (event: PointerEvent) => {
    const before = pointers.current.get(event.pointerId);
    if (!before) return point(...place(event));
    const others = [...pointers.current].filter(([id]) => id !== event.pointerId);
    pointers.current.set(event.pointerId, [event.clientX, event.clientY]);
    const [a, b] = [place({ clientX: before[0], clientY: before[1] }), place(event)];
    if (others.length) {
      const other = others[0][1];
      const gap = (p: [number, number]) => Math.hypot(p[0] - other[0], p[1] - other[1]);
      return zoom(gap(before) / Math.max(gap([event.clientX, event.clientY]), 1), place({ clientX: other[0], clientY: other[1] }));
    }
    move({ q0: view.q0 + a[0] - b[0], q1: view.q1 + a[0] - b[0], k0: view.k0 + a[1] - b[1], k1: view.k1 + a[1] - b[1] });
  };
  const release = (event: PointerEvent) => pointers.current.delete(event.pointerId);
  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    zoom(Math.exp(Math.max(-1, Math.min(event.deltaY / 300, 1))), place(event));
  };
  useEffect(() => {
    const target = canvas.current!;
    target.addEventListener("wheel", onWheel, { passive: false });
    return () => target.removeEventListener("wheel", onWheel);
  });
  const onKeyDown = (event: KeyboardEvent) => {
    const arrows: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const arrow = arrows[event.key];
    if (arrow) {
      const [q, k] = cursor ?? [(view.q0 + view.q1) / 2, (view.k0 + view.k1) / 2];
      const far = event.shiftKey ? 10 : 1;
      const step = (low: number, high: number, pixels: number) => far * Math.max(1, (high - low) / pixels);
      const clamp = (x: number, low: number, high: number) => Math.max(low, Math.min(x, high - 1e-6));
      point(clamp(q + arrow[0] * step(view.q0, view.q1, shape.height), view.q0, view.q1),
        clamp(k + arrow[1] * step(view.k0, view.k1, shape.width), view.k0, view.k1));
    } else if (event.key === "+" || event.key === "=") zoom(0.5, cursor ?? undefined);
    else if (event.key === "-") zoom(2, cursor ?? undefined);
    else if (event.key === "0") setView(all);
    else return;
    event.preventDefault();
  };
  return (
    <div class="picture">
      <canvas ref={canvas} tabIndex={0} role="img" aria-label={`${label}. ${say.help}`} id="picture"
        style={{ width: `${shape.width + MARGIN.left + MARGIN.right}px`, height: `${shape.height + MARGIN.top + MARGIN.bottom}px` }}
        onPointerDown={onPointerDown} onPointerMove={onPointerMove} onPointerUp={release} onPointerCancel={release}
        onPointerLeave={() => { if (!pointers.current.size) point(-1, -1); }} onKeyDown={onKeyDown} />
      <p class="pointed" id="pointed" role="status" aria-live="polite">{pointed || say.help}</p>
      <div class="buttons">
        <button onClick={() => zoom(0.5)} aria-label={say.zoomIn} title={say.zoomIn}>+</button>
        <button onClick={() => zoom(2)} aria-label={say.zoomOut} title={say.zoomOut}>−</button>
        <button onClick={() => setView(all)}>{say.whole}</button>
      </div>
    </div>
  );
}

type Shape = { width: number; height: number };

/** The room for the cells: as wide as there is room, as high as the grid's shape asks. */
function plot(size: number, qLen: number, kLen: number): Shape {
  const width = Math.floor(size - MARGIN.left - MARGIN.right);
  const height = Math.floor(width * Math.max(0.12, Math.min(qLen / Math.max(kLen, 1), 1)));
  return { width, height };
}

/** Keep a view on the grid, and at least a few cells wide. */
function kept(view: View, all: View): View {
  const axis = (low: number, high: number, first: number, stop: number): [number, number] => {
    const length = Math.max(Math.min(SMALLEST, stop - first), Math.min(high - low, stop - first));
    const middle = (low + high) / 2;
    const start = Math.max(first, Math.min(middle - length / 2, stop - length));
    return [start, start + length];
  };
  const [q0, q1] = axis(view.q0, view.q1, all.q0, all.q1);
  const [k0, k1] = axis(view.k0, view.k1, all.k0, all.k1);
  return { q0, q1, k0, k1 };
}

/** Edges of the pixels over [low, high): one a cell where cells are larger, else a pixel of many. */
function axisEdges(low: number, high: number, pixels: number): Float64Array {
  const [first, stop] = [Math.floor(low + 1e-9), Math.ceil(high - 1e-9)];
  return edges(first, Math.max(stop, first + 1), Math.min(Math.max(stop - first, 1), pixels));
}

function pixel(seen: Spans, view: View, shape: Shape, q: number, k: number): Pointed {
  const [qEdges, kEdges] = [axisEdges(view.q0, view.q1, shape.height), axisEdges(view.k0, view.k1, shape.width)];
  const at = (list: Float64Array, x: number) => Math.max(0, Math.min(list.findIndex((e) => e > x) - 1, list.length - 2));
  const [i, j] = [at(qEdges, q), at(kEdges, k)];
  const cell = Float64Array.of(kEdges[j], kEdges[j + 1]);
  const found = countRow(seen, qEdges[i], qEdges[i + 1], cell, row(1))[0];
  const whole = (qEdges[i + 1] - qEdges[i]) * (cell[1] - cell[0]);
  return { q: [qEdges[i], qEdges[i + 1]], k: [cell[0], cell[1]], share: found / whole };
}

type Scene = { say: Words; layers: Layer[]; seen: Spans; view: View; shape: Shape; cursor: [number, number] | null; dark: boolean };

function draw(canvas: HTMLCanvasElement, { say, layers, seen, view, shape, cursor, dark }: Scene): void {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  const [width, height] = [shape.width + MARGIN.left + MARGIN.right, shape.height + MARGIN.top + MARGIN.bottom];
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d")!;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const [ink, faint] = dark ? ["#e8e8e8", "#8a8a8a"] : ["#222", "#767676"];
  const [qEdges, kEdges] = [axisEdges(view.q0, view.q1, shape.height), axisEdges(view.k0, view.k1, shape.width)];
  const [rows, columns] = [qEdges.length - 1, kEdges.length - 1];
  const image = new OffscreenCanvas(columns, rows);
  image.getContext("2d")!.putImageData(new ImageData(paint(layers, qEdges, kEdges), columns, rows), 0, 0);
  const [sx, sy] = [shape.width / (view.k1 - view.k0), shape.height / (view.q1 - view.q0)];
  const x = (k: number) => MARGIN.left + (k - view.k0) * sx;
  const y = (q: number) => MARGIN.top + (q - view.q0) * sy;
  pen.save();
  pen.beginPath();
  pen.rect(MARGIN.left, MARGIN.top, shape.width, shape.height);
  pen.clip();
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, x(kEdges[0]), y(qEdges[0]), x(kEdges[columns]) - x(kEdges[0]), y(qEdges[rows]) - y(qEdges[0]));
  if (Math.min(sx, sy) >= 7) lines(pen, qEdges, kEdges, x, y, shape);
  if (cursor) mark(pen, x(cursor[1]), y(cursor[0]), shape);
  pen.restore();
  pen.strokeStyle = faint;
  pen.strokeRect(MARGIN.left - 0.5, MARGIN.top - 0.5, shape.width + 1, shape.height + 1);
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = ink;
  ticks(view, shape).forEach(([axis, at]) => {
    const middle = at + 0.5;
    if (axis === "k") label(pen, short(at), x(Math.min(middle, view.k1)), MARGIN.top - 8, "center");
    else label(pen, short(at), MARGIN.left - 6, y(middle) + 4, "right");
  });
  profiles(pen, seen, qEdges, kEdges, shape, { x, y, ink, faint, say });
}

function lines(pen: CanvasRenderingContext2D, qEdges: Float64Array, kEdges: Float64Array,
  x: (k: number) => number, y: (q: number) => number, shape: Shape): void {
  pen.strokeStyle = "rgba(128, 128, 128, .45)";
  pen.lineWidth = 1;
  pen.beginPath();
  for (const k of kEdges) pen.moveTo(x(k), MARGIN.top), pen.lineTo(x(k), MARGIN.top + shape.height);
  for (const q of qEdges) pen.moveTo(MARGIN.left, y(q)), pen.lineTo(MARGIN.left + shape.width, y(q));
  pen.stroke();
}

function mark(pen: CanvasRenderingContext2D, x: number, y: number, shape: Shape): void {
  for (const [color, width] of [["#fff", 3], ["#000", 1]] as const) {
    pen.strokeStyle = color;
    pen.lineWidth = width;
    pen.beginPath();
    pen.moveTo(MARGIN.left, y);
    pen.lineTo(x - 8, y);
    pen.moveTo(x, MARGIN.top);
    pen.lineTo(x, y - 8);
    pen.rect(x - 8, y - 8, 16, 16);
    pen.stroke();
  }
  void shape;
}

function label(pen: CanvasRenderingContext2D, text: string, x: number, y: number, align: CanvasTextAlign): void {
  pen.textAlign = align;
  pen.fillText(text, x, y);
}

/** Positions to name: round ones, some 60 pixels apart. */
function ticks(view: View, shape: Shape): ["q" | "k", number][] {
  const axis = (name: "q" | "k", low: number, high: number, most: number): ["q" | "k", number][] => {
    let step = 1;
    while ((high - low) / step > Math.max(most, 1)) step *= 2;
    const found: ["q" | "k", number][] = [];
    for (let at = Math.ceil(low / step) * step; at < high; at += step) found.push([name, at]);
    return found;
  };
  return [...axis("k", view.k0, view.k1, shape.width / 58), ...axis("q", view.q0, view.q1, shape.height / 26)];
}

/** 512k and 1M where that is exact, else all digits. */
export function short(position: number): string {
  for (const [size, unit] of [[2 ** 20, "M"], [1024, "k"]] as const) {
    if (position && position % size === 0) return `${count(position / size)}${unit}`;
  }
  return String(position);
}

type Frame = { x: (k: number) => number; y: (q: number) => number; ink: string; faint: string; say: Words };

/** Bars on two sides: the share of the keys in view that each row sees, and the same of columns. */
function profiles(pen: CanvasRenderingContext2D, seen: Spans, qEdges: Float64Array, kEdges: Float64Array, shape: Shape, frame: Frame): void {
  const found = counts(seen, qEdges, Float64Array.of(kEdges[0], kEdges[kEdges.length - 1]));
  const across = counts(seen, Float64Array.of(qEdges[0], qEdges[qEdges.length - 1]), kEdges);
  const [rows, columns] = [qEdges.at(-1)! - qEdges[0], kEdges.at(-1)! - kEdges[0]];
  const [right, bottom] = [MARGIN.left + shape.width, MARGIN.top + shape.height];
  pen.fillStyle = frame.faint;
  found.forEach((n, i) => {
    const share = n / ((qEdges[i + 1] - qEdges[i]) * columns);
    const [top, end] = [Math.max(frame.y(qEdges[i]), MARGIN.top), Math.min(frame.y(qEdges[i + 1]), bottom)];
    pen.fillRect(right + 6, top, share * (MARGIN.right - 24), Math.max(end - top, 0.5));
  });
  across.forEach((n, j) => {
    const share = n / ((kEdges[j + 1] - kEdges[j]) * rows);
    const [left, end] = [Math.max(frame.x(kEdges[j]), MARGIN.left), Math.min(frame.x(kEdges[j + 1]), right)];
    pen.fillRect(left, bottom + 6, Math.max(end - left, 0.5), share * (MARGIN.bottom - 30));
  });
  pen.fillStyle = frame.ink;
  label(pen, `${frame.say.key} →  ${frame.say.perKey}`, MARGIN.left + shape.width / 2, bottom + MARGIN.bottom - 8, "center");
  pen.save();
  pen.translate(right + MARGIN.right - 6, MARGIN.top + shape.height / 2);
  pen.rotate(-Math.PI / 2);
  if (shape.height > 150) label(pen, frame.say.perQuery, 0, 0, "center");
  pen.restore();
  pen.save();
  pen.translate(12, MARGIN.top + shape.height / 2);
  pen.rotate(-Math.PI / 2);
  label(pen, `← ${frame.say.query}`, 0, 0, "center");
  pen.restore();
}
