import { useRef, useState } from 'preact/hooks';
import { diffReports, summary, type DiffRow } from '../lib/diff';
import { count, many, preview, signed } from '../lib/format';
import { wordDiff } from '../lib/worddiff';
import type { Considered, XWindow } from '../lib/window';
import { shown } from '../lib/blocks';
import { Body, Role } from './atom';
import { FateChip, Segmented } from './basic';
import { Hostile } from './text';
import { useVirtual } from './virtual';

const signs: Record<DiffRow['kind'], [string, string]> = {
  entered: ['+', 'comes in'], left: ['−', 'goes out'], more: ['▴', 'is shown in more of its length'],
  less: ['▾', 'is shown in less of its length'], other: ['~', 'differs'], same: ['', 'is the same'],
};

/** Compares two windows message by message: what was added or removed, and what is longer or shorter. */
export function WindowDiff({ a, b, rowsOfA, rowsOfB, names = ['A', 'B'] }: { a: XWindow; b: XWindow; rowsOfA: Considered[]; rowsOfB: Considered[]; names?: [string, string] }) {
  const [all, setAll] = useState<'changes' | 'all' | 'side'>('changes');
  const [open, setOpen] = useState<string>();
  const rows = diffReports(a.report, b.report);
  const sum = summary(rows);
  const listed = all === 'changes' ? rows.filter((r) => r.kind !== 'same') : rows;
  const find = (list: Considered[], row: DiffRow['before']) => (row ? list.find((c) => c.row === row) : undefined);
  const textIn = (w: XWindow, row: DiffRow['before']) =>
    row?.window_index === null || row?.window_index === undefined ? '' : shown(w.messages[row.window_index]).blocks.map((x) => x.text).join('\n');
  return (
    <section class="diff" aria-label={`Differences from ${names[0]} to ${names[1]}`}>
      <header>
        <p aria-live="polite">
          <b>{sum.entered}</b> in, <b>{sum.left}</b> out, <b>{sum.less}</b> shorter, <b>{sum.more}</b> longer, <b>{signed(b.usage.tokens - a.usage.tokens)}</b> tokens
        </p>
        <Segmented label="Which messages" value={all} options={[['changes', 'Only changes'], ['all', `All ${count(rows.length)}`], ['side', 'Side by side']]} onChange={setAll} />
      </header>
      {listed.length === 0 && <p class="nothing">Both windows treat every message alike.</p>}
      {all === 'side' && (
        <div class="sides">
          <Side name={names[0]} window={a} />
          <Side name={names[1]} window={b} />
        </div>
      )}
      <ol hidden={all === 'side'}>
        {listed.slice(0, 400).map((r) => {
          const c = find(rowsOfB, r.after) ?? find(rowsOfA, r.before);
          const [sign, says] = signs[r.kind];
          return (
            <li key={r.id} class={`diff-${r.kind}`}>
              <button type="button" class="diff-row" aria-expanded={open === r.id} onClick={() => setOpen(open === r.id ? undefined : r.id)}>
                <span class="sign" aria-hidden="true">{sign}</span>
                <span class="sr">{says}:</span>
                <span class="turn">{r.turn ?? ''}</span>
                <Role role={c?.shown.role ?? ''} />
                <span class="line"><Hostile text={preview(c?.line ?? r.id, 200)} /></span>
                <span class="fates">
                  {r.before ? <FateChip action={r.before.action} /> : <span class="muted">not there</span>}
                  <span aria-label="then"> → </span>
                  {r.after ? <FateChip action={r.after.action} /> : <span class="muted">not there</span>}
                </span>
              </button>
              {open === r.id && (
                <div class="diff-detail">
                  <p>
                    {names[0]}: {r.before ? `${r.before.policy || 'Mneme'}, ${r.before.reason} (${many(r.before.tokens_after, 'token')})` : 'not considered'}
                    <br />
                    {names[1]}: {r.after ? `${r.after.policy || 'Mneme'}, ${r.after.reason} (${many(r.after.tokens_after, 'token')})` : 'not considered'}
                  </p>
                  <Words before={textIn(a, r.before)} after={textIn(b, r.after)} />
                </div>
              )}
            </li>
          );
        })}
      </ol>
      {listed.length > 400 && <p class="muted">{count(listed.length - 400)} more are not listed.</p>}
    </section>
  );
}

/** A window as the model sees it, next to another one. */
function Side({ name, window: w }: { name: string; window: XWindow }) {
  const scroller = useRef<HTMLDivElement>(null);
  const v = useVirtual({ count: w.messages.length, estimate: 74, scroller });
  return (
    <section class="pane" aria-label={`Window ${name}`}>
      <h2>
        {name} <span class="muted">{count(w.messages.length)} messages, {count(w.usage.tokens)} tokens</span>
      </h2>
      <div class="scroller" ref={scroller} tabIndex={0} role="list" aria-label={`Messages of ${name}`}>
        <div style={{ height: `${v.height}px` }}>
          {v.items.map((item) => {
            const what = shown(w.messages[item.index]);
            return (
              <div key={item.key} ref={v.list.measureElement} data-index={item.index} role="listitem" aria-setsize={w.messages.length} aria-posinset={item.index + 1} class="vrow" style={{ transform: `translateY(${item.start}px)` }}>
                <div class="window-item">
                  <div class="item-head"><span class="turn">{item.index}</span><Role role={what.role} /></div>
                  <div class="clamp"><Body shown={what} /></div>
                </div>
              </div>
            );
          })}
        </div>
      </div>
    </section>
  );
}

/** The changes of a text, word by word. */
export function Words({ before, after }: { before: string; after: string }) {
  return (
    <div class="prose words">
      {wordDiff(before, after).map((c, i) =>
        c.kind === 'same' ? <Hostile key={i} text={c.text} /> : c.kind === 'added' ? <ins key={i}><Hostile text={c.text} /></ins> : <del key={i}><Hostile text={c.text} /></del>,
      )}
    </div>
  );
}
