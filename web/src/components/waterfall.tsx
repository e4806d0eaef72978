import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Schemas } from '../api/client';
import { brief, count, many } from '../lib/format';
import { theme } from '../state/stored';
import { parts } from './budgetbar';

type Row = Schemas['DecisionRow'];
const drawn = parts.filter(([name]) => name !== 'free' && name !== 'reserved');

/**
 * The tokens of each window of a session, one bar per decision, by the parts of the prompt. A line shows what was left
 * out. Clicking a bar opens its X-ray.
 */
export function Waterfall({ decisions, onOpen }: { decisions: Row[]; onOpen: (row: Row) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [over, setOver] = useState<number | null>(null);
  const rows = decisions;
  const open = useRef(onOpen);
  open.current = onOpen;
  const [scheme, setScheme] = useState(0);
  useEffect(() => {
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const turn = () => setScheme((n) => n + 1);
    dark.addEventListener('change', turn);
    return () => dark.removeEventListener('change', turn);
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element || rows.length === 0) return;
    const style = getComputedStyle(element);
    const used = drawn.filter(([name]) => rows.some((r) => r.usage.parts[name] > 0));
    // Bars are stacked by drawing the largest sum first and the smaller ones over it.
    const sums = rows.map(() => 0);
    const stacked = used.map(([name]) => rows.map((r, i) => (sums[i] = sums[i]! + r.usage.parts[name]))).reverse();
    const colours = used.map(([name]) => style.getPropertyValue(`--part-${name}`).trim() || '#888').map(resolve(element)).reverse();
    const muted = resolve(element)(style.getPropertyValue('--muted'));
    const line = resolve(element)(style.getPropertyValue('--line'));
    const bars = uPlot.paths.bars!({ size: [0.86, 40], radius: 0.12, gap: 1 });
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: 150,
        legend: { show: false },
        padding: [10, 24, 0, 0],
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        scales: { x: { time: false, range: [-0.6, rows.length - 0.4] }, y: { range: (_u, _min, max) => [0, max * 1.05 || 1] }, left: { range: (_u, _min, max) => [0, max * 1.4 || 1] } },
        axes: [
          { stroke: muted, grid: { show: false }, ticks: { show: false }, size: 26, values: (_u, splits) => splits.map((i) => (Number.isInteger(i) && rows[i] ? 'turn ' + rows[i].turn : '')), space: 70 },
          { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 52, values: (_u, splits) => splits.map((v) => brief(v)) },
        ],
        series: [
          {},
          ...stacked.map((_, i) => ({ paths: bars, fill: colours[i], stroke: colours[i], width: 0, points: { show: false } })),
          { scale: 'left', stroke: resolve(element)(style.getPropertyValue('--drop')), width: 1.5, dash: [4, 3], points: { show: false } },
        ],
        hooks: { setCursor: [(u) => setOver(u.cursor.idx ?? null)] },
      },
      [rows.map((_, i) => i), ...stacked, rows.map((r) => r.left_out.tokens)] as uPlot.AlignedData,
      element,
    );
    const click = () => {
      const row = plot.cursor.idx === null || plot.cursor.idx === undefined ? undefined : rows[plot.cursor.idx];
      if (row) open.current(row);
    };
    plot.over.addEventListener('click', click);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: 150 }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [rows, theme.value, scheme]);
  const last = rows[rows.length - 1];
  if (!last) return null;
  const row = over === null ? undefined : rows[over];
  const cuts = rows.filter((r) => r.cut).length;
  return (
    <figure class="waterfall">
      <div ref={box} role="img" aria-label={`Tokens of ${many(rows.length, 'window')} from turn ${rows[0]!.turn} to ${last.turn}. The newest has ${count(last.usage.tokens)} and leaves out ${count(last.left_out.tokens)}. ${many(cuts, 'window')} did not begin with the window before.`} />
      <figcaption>
        {row ? (
          <>
            turn {row.turn}: <b>{count(row.usage.tokens)}</b> tokens in {many(row.usage.messages, 'message')}, <b>{count(row.left_out.tokens)}</b> left out{row.cut ? ', cut' : ''} — click for its X-ray
          </>
        ) : (
          <>
            {drawn.filter(([name]) => rows.some((r) => r.usage.parts[name] > 0)).map(([name, title]) => (
              <span key={name}><span class={`swatch part-${name}`} aria-hidden="true" /> {title}</span>
            ))}
            <span><span class="swatch dashed" aria-hidden="true" /> left out</span>
            <span>{many(cuts, 'cut')}</span>
          </>
        )}
      </figcaption>
    </figure>
  );
}

/** A canvas does not support light-dark(), so the page computes the colours first. */
const resolve = (element: HTMLElement) => (colour: string) => {
  const probe = document.createElement('span');
  probe.style.color = colour;
  element.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};
