import { signal, type Signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useRef } from 'preact/hooks';
import { shown } from '../lib/blocks';
import { fates } from '../lib/fates';
import { brief, count, preview, signed } from '../lib/format';
import { sources, type Considered, type XWindow } from '../lib/window';
import { Body, Role } from './atom';
import { FateChip } from './basic';
import { Hostile } from './text';
import { useVirtual, type List } from './virtual';

interface Props {
  window: XWindow;
  rows: Considered[];
  /** The indexes in `rows` that are listed, in order. */
  listed: number[];
  selected?: number;
  onSelect: (row: number | undefined) => void;
  detail: (row: Considered) => ComponentChildren;
  /** Which of the two lists a narrow screen shows. */
  pane: 'considered' | 'window';
}

/**
 * The considered messages next to what the model sees. Ribbons connect a message with its position in the window, if it
 * has one. Pointing at either end highlights the other.
 */
export function LinkedLists({ window: w, rows, listed, selected, onSelect, detail, pane }: Props) {
  const hovered = useRef(signal<number | undefined>(undefined)).current;
  const left = useRef<HTMLDivElement>(null);
  const right = useRef<HTMLDivElement>(null);
  const owners = sources(w);
  const from = useVirtual({ count: listed.length, estimate: 54, scroller: left, keyOf: (i) => listed[i] ?? i });
  const into = useVirtual({ count: w.messages.length, estimate: 74, scroller: right });

  // Initially the lists show where the window begins: above is what was left out, below what it contains.
  useEffect(() => {
    if (selected !== undefined) return;
    const begin = listed.findIndex((i) => rows[i]!.row.window_index !== null && rows[i]!.row.action !== 'inject');
    from.list.scrollToIndex(Math.max(0, begin - 3), { align: 'start' });
  }, [w]);
  // Selecting a row shows its position in the window, and vice versa.
  useEffect(() => {
    if (selected === undefined) return;
    const at = listed.indexOf(selected);
    if (at >= 0) from.list.scrollToIndex(at, { align: 'auto' });
    const place = rows[selected]?.row.window_index;
    if (place !== null && place !== undefined) into.list.scrollToIndex(place, { align: 'center' });
  }, [selected]);

  return (
    <div class="linked" data-pane={pane}>
      <section class="pane considered" aria-labelledby="considered-title">
        <h2 id="considered-title">
          Considered <span class="muted">{count(listed.length)}{listed.length < rows.length && ` of ${count(rows.length)}`}</span>
        </h2>
        <div class="scroller" ref={left} tabIndex={0} role="list" aria-labelledby="considered-title">
          <div style={{ height: `${from.height}px` }}>
            {from.items.map((item) => {
              const index = listed[item.index];
              const entry = index === undefined ? undefined : rows[index];
              if (!entry || index === undefined) return null;
              return (
                <div
                  key={item.key}
                  ref={from.list.measureElement}
                  data-index={item.index}
                  role="listitem"
                  aria-setsize={listed.length}
                  aria-posinset={item.index + 1}
                  class="vrow"
                  style={{ transform: `translateY(${item.start}px)` }}
                >
                  <ConsideredRow entry={entry} index={index} before={rows[index - 1]} selected={selected === index} hovered={hovered} onSelect={onSelect}>
                    {selected === index && detail(entry)}
                  </ConsideredRow>
                </div>
              );
            })}
          </div>
          {listed.length === 0 && <p class="nothing">No messages with this outcome.</p>}
        </div>
      </section>
      <Ribbon rows={rows} listed={listed} from={from.list} into={into.list} left={left} right={right} hovered={hovered} selected={selected} />
      <section class="pane window" aria-labelledby="window-title">
        <h2 id="window-title">
          The model sees <span class="muted">{count(w.lost ? w.usage.messages : w.messages.length)} {w.format === 'openai.responses' ? 'items' : 'messages'}, {brief(w.usage.tokens)} tokens</span>
        </h2>
        <div class="scroller" ref={right} tabIndex={0} role="list" aria-labelledby="window-title">
          {w.system !== undefined && w.system !== null && <SystemText system={w.system} />}
          <div style={{ height: `${into.height}px` }}>
            {into.items.map((item) => (
              <div
                key={item.key}
                ref={into.list.measureElement}
                data-index={item.index}
                role="listitem"
                aria-setsize={w.messages.length}
                aria-posinset={item.index + 1}
                class="vrow"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <WindowItem message={w.messages[item.index]} index={item.index} owners={owners[item.index] ?? []} rows={rows} selected={selected} hovered={hovered} onSelect={onSelect} />
              </div>
            ))}
          </div>
        </div>
      </section>
    </div>
  );
}

function SystemText({ system }: { system: unknown }) {
  const text = typeof system === 'string' ? system : shown({ role: 'system', content: system }).blocks.map((b) => b.text).join('\n');
  return (
    <div class="window-item" role="listitem">
      <div class="item-head">
        <Role role="system" /> <span class="muted">system, sent beside the messages</span>
      </div>
      <div class="prose clamp"><Hostile text={text} /></div>
    </div>
  );
}

function ConsideredRow({ entry, index, before, selected, hovered, onSelect, children }: {
  entry: Considered; index: number; before?: Considered; selected: boolean; hovered: Signal<number | undefined>;
  onSelect: (row: number | undefined) => void; children: ComponentChildren;
}) {
  const { row } = entry;
  const change = row.tokens_after - row.tokens_before;
  const sameTurn = before !== undefined && before.row.turn === row.turn;
  const sameAtom = before !== undefined && row.atom !== null && before.row.atom === row.atom;
  const by = row.step === null ? 'Mneme' : row.policy;
  return (
    <div
      class={`crow tone-${fates[row.action].tone} ${selected ? 'selected' : ''} ${hovered.value === index ? 'hovered' : ''} ${sameAtom ? 'bound' : ''}`}
      onMouseEnter={() => (hovered.value = index)}
      onMouseLeave={() => (hovered.value = undefined)}
    >
      <button type="button" class="crow-main" aria-expanded={selected} onClick={() => onSelect(selected ? undefined : index)}>
        <span class="turn">{row.turn === null ? '' : sameTurn ? <span class="sr">turn {row.turn}</span> : <><span class="sr">turn </span>{row.turn}</>}</span>
        <Role role={entry.shown.role} />
        <span class="line"><Hostile text={preview(entry.line, 180) || '(empty)'} /></span>
        <span class="tokens">
          {row.action === 'keep' || row.action === 'inject' ? brief(row.tokens_after) : change === 0 ? brief(row.tokens_before) : signed(change)}
          <span class="sr"> tokens</span>
        </span>
        <span class="why">
          <FateChip action={row.action} /> <span class="by">{by}</span> <span class="code">{row.reason_code.replaceAll('_', ' ')}</span>
        </span>
      </button>
      {children}
    </div>
  );
}

function WindowItem({ message, index, owners, rows, selected, hovered, onSelect }: {
  message: unknown; index: number; owners: number[]; rows: Considered[]; selected?: number; hovered: Signal<number | undefined>;
  onSelect: (row: number | undefined) => void;
}) {
  const what = shown(message);
  const first = owners[0];
  const row = first === undefined ? undefined : rows[first]?.row;
  const tone = row ? fates[row.action].tone : 'plain';
  const chosen = selected !== undefined && owners.includes(selected);
  const over = hovered.value !== undefined && owners.includes(hovered.value);
  return (
    <div
      class={`window-item tone-${tone} ${chosen ? 'selected' : ''} ${over ? 'hovered' : ''}`}
      onMouseEnter={() => (hovered.value = first)}
      onMouseLeave={() => (hovered.value = undefined)}
    >
      <div class="item-head">
        <span class="turn">{index}</span>
        <Role role={what.role} />
        {row?.turn ? <span class="muted">turn {row.turn}</span> : null}
        {row && row.action !== 'keep' && <FateChip action={row.action} />}
        <span class="grow" />
        {owners.length > 1 && <span class="muted">{owners.length} messages joined</span>}
        {first !== undefined && (
          <button type="button" class="quiet small" onClick={() => onSelect(chosen ? undefined : first)}>
            {chosen ? 'close' : 'why?'}
            <span class="sr"> message {index}</span>
          </button>
        )}
      </div>
      <div class={chosen ? '' : 'clamp'}>
        <Body shown={what} />
      </div>
    </div>
  );
}

function Ribbon({ rows, listed, from, into, left, right, hovered, selected }: {
  rows: Considered[]; listed: number[]; from: List; into: List; left: { current: HTMLElement | null }; right: { current: HTMLElement | null };
  hovered: Signal<number | undefined>; selected?: number;
}) {
  const [, redraw] = useReducer((n: number, _: void) => n + 1, 0);
  const svg = useRef<SVGSVGElement>(null);
  const size = useRef({ width: 56, height: 0 });
  useLayoutEffect(() => {
    let frame = 0;
    const soon = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => redraw());
    };
    const observer = new ResizeObserver(() => {
      const box = svg.current?.getBoundingClientRect();
      if (box) size.current = { width: box.width, height: box.height };
      soon();
    });
    if (svg.current) observer.observe(svg.current);
    for (const e of [left.current, right.current]) e?.addEventListener('scroll', soon, { passive: true });
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
      for (const e of [left.current, right.current]) e?.removeEventListener('scroll', soon);
    };
  }, []);
  const { width, height } = size.current;
  const top = (list: List, index: number) => {
    const m = list.measurementsCache[index];
    return m ? m.start - (list.scrollOffset ?? 0) + Math.min(m.size, 54) / 2 : undefined;
  };
  // The window's list begins with the system prompt if the format keeps it apart from the messages.
  const above = right.current?.querySelector<HTMLElement>(':scope > .window-item')?.offsetHeight ?? 0;
  const lines = listed.map((index, at) => {
    const row = rows[index]?.row;
    const y = top(from, at);
    if (!row || y === undefined) return null;
    const place = row.window_index === null ? undefined : top(into, row.window_index);
    const z = place === undefined ? undefined : place + above;
    const inView = (v: number | undefined) => v !== undefined && v > -20 && v < height + 20;
    if (!inView(y) && !inView(z)) return null;
    const lit = hovered.value === index || selected === index;
    const tone = `tone-${fates[row.action].tone} ${lit ? 'lit' : ''}`;
    if (z === undefined) {
      return (
        <g key={index} class={tone}>
          <path d={`M0 ${y}H10`} />
          <path d={`M10 ${y - 3.5}l7 7m0 -7l-7 7`} />
        </g>
      );
    }
    return <path key={index} class={tone} d={`M0 ${y}C${width / 2} ${y} ${width / 2} ${z} ${width} ${z}`} />;
  });
  return (
    <svg class="ribbon" ref={svg} aria-hidden="true">
      {lines}
    </svg>
  );
}
