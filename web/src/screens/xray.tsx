import { useLocation } from 'preact-iso';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, take } from '../api/client';
import { BudgetBar } from '../components/budgetbar';
import { Chip, Copy, copyText, Dialog, Empty, Head, Segmented, Trouble, Waiting, When } from '../components/basic';
import { CopyAs } from '../components/copyas';
import { LinkedLists } from '../components/linkedlists';
import { Pipeline } from '../components/pipeline';
import { Rules } from '../components/rules';
import { RowDetail } from '../components/rowdetail';
import { WindowDiff } from '../components/windowdiff';
import { fates, tally, type Action } from '../lib/fates';
import { brief, count, many, percent } from '../lib/format';
import { considered, loadWindow, messagesOf, type Source, type XWindow } from '../lib/window';
import { useCommands } from '../state/keys';
import { useLoad } from '../state/load';
import { to, useQuery } from '../state/query';

/** One decision of a session, or the window that a request would get now. */
export async function loadXRay(project: string, session: string, source: Source, signal?: AbortSignal) {
  const window = await loadWindow(project, session, source, signal);
  const ids = window.report.map((r) => r.message_id).filter((id): id is string => !!id);
  const stored = await messagesOf(project, session, ids, signal);
  return { window, stored, rows: considered(window, stored) };
}

export const sourceOf = (d: string | undefined): Source => (!d || d === 'live' ? 'live' : { decision: d });

/** X-ray: why the model sees what it sees. */
export default function XRay({ p, s }: { p: string; s: string }) {
  const { query, set } = useQuery();
  const { route } = useLocation();
  const d = query.d ?? 'live';
  const xray = useLoad((signal) => loadXRay(p, s, sourceOf(d), signal), [p, s, d]);
  const list = useLoad(
    (signal) =>
      take(api.GET('/api/v1/projects/{project}/decisions', { params: { path: { project: p }, query: { session_id: s, limit: 200 } }, signal })),
    [p, s],
  );
  const [dialog, setDialog] = useState<'copy' | 'diff'>();
  const search = useRef<HTMLInputElement>(null);
  const { window: w, rows } = xray.data ?? { rows: [] };

  const fate = query.fate as Action | 'changed' | undefined;
  const step = query.step === undefined ? undefined : Number(query.step);
  const words = (query.q ?? '').toLowerCase();
  const listed = useMemo(
    () =>
      rows.flatMap((c, i) => {
        if (fate === 'changed' ? c.row.action === 'keep' : fate && c.row.action !== fate) return [];
        if (step !== undefined && (c.row.step ?? -1) !== step) return [];
        if (words && !c.line.toLowerCase().includes(words)) return [];
        return [i];
      }),
    [rows, fate, step, words],
  );
  const found = query.m === undefined ? -1 : rows.findIndex((c, i) => (c.row.message_id ?? `#${i}`) === query.m);
  const selected = found < 0 ? undefined : found;
  const select = (i: number | undefined) => set({ m: i === undefined ? undefined : (rows[i]?.row.message_id ?? `#${i}`), v: undefined }, false);
  const move = (by: number) => {
    const at = selected === undefined ? (by > 0 ? -1 : listed.length) : listed.indexOf(selected);
    const next = listed[Math.max(0, Math.min(listed.length - 1, at + by))];
    if (next !== undefined) select(next);
  };

  const decisions = list.data?.data ?? [];
  const here = decisions.findIndex((x) => x.decision_id === d);
  const older = here >= 0 ? decisions[here + 1]?.decision_id : decisions[0]?.decision_id;
  const newer = here > 0 ? decisions[here - 1]?.decision_id : here === 0 ? 'live' : undefined;
  const open = (id: string | undefined) => id && set({ d: id, m: undefined, step: undefined }, true);
  const cycle: (string | undefined)[] = [undefined, ...tally(rows.map((r) => r.row)).keys()];

  useCommands([
    { keys: 'j', label: 'Next message', group: 'X-ray', run: () => move(1) },
    { keys: 'k', label: 'Previous message', group: 'X-ray', run: () => move(-1) },
    { keys: '[', label: 'Older decision', group: 'X-ray', run: () => open(older) },
    { keys: ']', label: 'Newer decision', group: 'X-ray', run: () => open(newer) },
    { keys: 'f', label: 'Next fate', group: 'X-ray', run: () => set({ fate: cycle[(cycle.indexOf(fate) + 1) % cycle.length] }) },
    { keys: 'w', label: 'Why not? The smallest budget at which the message stays', group: 'X-ray', run: () => set({ v: 'why' }) },
    { keys: 'r', label: 'Raw message', group: 'X-ray', run: () => set({ v: query.v === 'raw' ? undefined : 'raw' }) },
    { keys: 'd', label: 'Compare with the decision before', group: 'X-ray', run: () => older && setDialog('diff') },
    { keys: 'l', label: 'Open in the lab', group: 'X-ray', run: () => route(to.lab(p, s, d)) },
    { keys: 'y', label: 'Copy the address', group: 'X-ray', run: () => void copyText(location.href) },
    { keys: 'c', label: 'Copy as curl, Python or TypeScript', group: 'X-ray', run: () => setDialog('copy') },
    { keys: '/', label: 'Search in what was considered', group: 'X-ray', run: () => search.current?.focus() },
    { keys: 't', label: 'Transcript', group: 'X-ray', run: () => route(to.session(p, s)) },
  ]);

  const pane = query.pane === 'window' ? 'window' : 'considered';
  const title = d === 'live' ? 'The window as it would be now' : w?.decision ? `The window of turn ${w.decision.turns + (hasPending(w) ? 1 : 0)}` : 'X-ray';
  useEffect(() => {
    document.title = `${title} · ${s} · Mneme`;
  }, [title, s]);

  return (
    <div class="screen xray">
      <Head trail={[[p, to.sessions(p)], [s, to.session(p, s)]]} title={title} note={w && <Facts window={w} d={d} />}>
        <button type="button" disabled={!older} onClick={() => open(older)} aria-label="Older decision" title="Older decision  [">←</button>
        <button type="button" disabled={!newer} onClick={() => open(newer)} aria-label="Newer decision" title="Newer decision  ]">→</button>
        <button type="button" disabled={!older} onClick={() => setDialog('diff')} title="Compare with the previous decision  d">Diff</button>
        <button type="button" onClick={() => setDialog('copy')} title="Copy as code  c">Copy as…</button>
        <a class="button primary" href={to.lab(p, s, d)} title="Try other rules  l">What if?</a>
      </Head>
      {xray.error && <Trouble error={xray.error} retry={xray.reload} />}
      {!w && xray.loading && <Waiting rows={8} />}
      {w && (
        <>
          {w.lost && <p class="banner">This window cannot be computed again: {w.lost}</p>}
          <div class="overview">
            <BudgetBar usage={w.usage} />
            <Rules window={w} />
          </div>
          <Pipeline window={w} step={step} onStep={(n) => set({ step: n === step ? undefined : n })} />
          <div class="filters">
            <FateFilter rows={rows.map((r) => r.row)} value={fate} onChange={(f) => set({ fate: f })} />
            <input
              ref={search}
              type="search"
              placeholder="Search the considered messages"
              aria-label="Search the considered messages"
              value={query.q ?? ''}
              onInput={(e) => set({ q: e.currentTarget.value })}
            />
            <div class="only-narrow">
              <Segmented label="Which list" value={pane} options={[['considered', 'Considered'], ['window', 'The model sees']]} onChange={(v) => set({ pane: v })} />
            </div>
          </div>
          {rows.length === 0 && !w.lost ? (
            <Empty title="No messages to consider yet">
              <p>The session has no messages. Post a turn, then come back.</p>
            </Empty>
          ) : (
            <LinkedLists
              window={w}
              rows={rows}
              listed={listed}
              selected={selected}
              onSelect={select}
              pane={pane}
              detail={(c) => (
                <RowDetail
                  key={c.row.message_id}
                  project={p}
                  session={s}
                  source={sourceOf(d)}
                  window={w}
                  entry={c}
                  stored={c.row.message_id ? xray.data?.stored.get(c.row.message_id) : undefined}
                  view={query.v}
                  onView={(v) => set({ v })}
                />
              )}
            />
          )}
        </>
      )}
      {dialog === 'copy' && w && <CopyAs project={p} session={s} d={d} request={w.decision?.request} onClose={() => setDialog(undefined)} />}
      {dialog === 'diff' && w && older && <Before project={p} session={s} older={older} now={{ window: w, rows }} onClose={() => setDialog(undefined)} />}
    </div>
  );
}

const hasPending = (w: XWindow) => ((w.decision?.request as { pending?: unknown[] } | undefined)?.pending?.length ?? 0) > 0;

/** The sentence below the title: what was considered, what was kept, and what a provider's cache can reuse. */
function Facts({ window: w, d }: { window: XWindow; d: string }) {
  const t = tally(w.report);
  const out = t.get('drop');
  const older = w.report.find((r) => r.reason_code === 'beyond_horizon');
  const [copied, setCopied] = useState(false);
  return (
    <>
      <span>
        {count(w.usage.considered_messages)} considered, {out ? `${count(out.messages)} left out` : w.lost && !w.report.length ? 'what was left out is unknown' : 'none left out'}
        {older ? `; ${count(older.count ?? 0)} older ones are not looked at` : ''}.
      </span>{' '}
      {w.usage.prefix ? (
        <span title="The share of the previous window that this one starts with: what a provider bills as cached.">
          Prefix kept <b>{percent(w.usage.prefix.share)}</b>
        </span>
      ) : (
        <span>No previous window</span>
      )}{' '}
      {w.cut && <Chip tone="short" title="The window does not start with the whole history of the previous window.">cut</Chip>}{' '}
      <Chip>{w.format}</Chip>{' '}
      {w.decision && (
        <>
          {w.equal === true && <Chip tone="keep" title="Just recomputed from stored data, with the same bytes.">replay equal ✓</Chip>}
          {w.equal === false && <Chip tone="drop">replay differs</Chip>} <When at={w.decision.created_at} />{' '}
          <button
            type="button"
            class="link mono"
            title="Copy the decision's id"
            onClick={() => void copyText(d).then(() => setCopied(true))}
          >
            {copied ? 'copied' : d.slice(0, 14) + '…'}
          </button>
        </>
      )}
    </>
  );
}

function FateFilter({ rows, value, onChange }: { rows: XWindow['report']; value?: string; onChange: (fate: string | undefined) => void }) {
  const t = tally(rows);
  return (
    <div class="fates" role="group" aria-label="Fates">
      <button type="button" class="chip tone-plain" aria-pressed={!value} onClick={() => onChange(undefined)}>
        all <b>{count([...t.values()].reduce((n, x) => n + x.messages, 0))}</b>
      </button>
      {[...t].map(([action, n]) => (
        <button
          type="button"
          key={action}
          class={`chip tone-${fates[action].tone}`}
          aria-pressed={value === action}
          title={`${fates[action].says} ${many(n.before, 'token')} before, ${count(n.after)} after.`}
          onClick={() => onChange(value === action ? undefined : action)}
        >
          {fates[action].word} <b>{brief(n.messages)}</b>
        </button>
      ))}
    </div>
  );
}

function Before({ project, session, older, now, onClose }: { project: string; session: string; older: string; now: { window: XWindow; rows: ReturnType<typeof considered> }; onClose: () => void }) {
  const before = useLoad((signal) => loadXRay(project, session, { decision: older }, signal), [older]);
  return (
    <Dialog title="Changes since the previous window" onClose={onClose} wide>
      {before.error && <Trouble error={before.error} />}
      {!before.data && before.loading && <Waiting />}
      {before.data && <WindowDiff a={before.data.window} b={now.window} rowsOfA={before.data.rows} rowsOfB={now.rows} names={['before', 'now']} />}
      <div class="actions">
        <Copy text={() => location.href}>Copy the address</Copy>
      </div>
    </Dialog>
  );
}
