import { useLocation } from 'preact-iso';
import { useRef, useState } from 'preact/hooks';
import { api, Failure, take, type Schemas } from '../api/client';
import { BudgetBar } from '../components/budgetbar';
import { Chip, Head, Spark, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { brief, count, many, percent, preview } from '../lib/format';
import { useCommands } from '../state/keys';
import { useLoad } from '../state/load';
import { to, useQuery } from '../state/query';
import { FirstSteps } from './projects';

type Session = Schemas['SessionRow'];
type Sort = '-last_activity_at' | '-turns' | '-tokens' | 'id' | 'relevance';

const days: [string, string][] = [['', 'Any time'], ['1', 'Last day'], ['7', 'Last 7 days'], ['30', 'Last 30 days']];

/** The sessions of a project: what was said last, how full the window is, how often it was cut. */
export default function Sessions({ p }: { p: string }) {
  const { query, set } = useQuery();
  const { route } = useLocation();
  const search = useRef<HTMLInputElement>(null);
  const [more, setMore] = useState<{ rows: Session[]; cursor?: string; for: string }>();
  const [trouble, setTrouble] = useState<Failure>();
  const sort = (query.sort ?? (query.q ? 'relevance' : '-last_activity_at')) as Sort;
  const asked = JSON.stringify([p, query.q, query.agent, query.kind, query.since, sort]);
  const page = (cursor: string | undefined, signal?: AbortSignal) =>
    take(
      api.GET('/api/v1/projects/{project}/sessions', {
        params: {
          path: { project: p },
          query: {
            limit: 50, cursor, sort, q: query.q || undefined, agent: query.agent || undefined, kind: (query.kind || undefined) as 'chat' | undefined,
            since: query.since ? new Date(Date.now() - Number(query.since) * 86_400_000).toISOString() : undefined,
            fields: ['preview', 'window'],
          },
        },
        signal,
        querySerializer: { array: { style: 'form', explode: false } },
      }),
    );
  const first = useLoad((signal) => page(undefined, signal), [asked]);
  const extra = more?.for === asked ? more : undefined;
  const rows = [...(first.data?.data ?? []), ...(extra?.rows ?? [])];
  const cursor = extra ? extra.cursor : first.data?.has_more ? (first.data.next_cursor ?? undefined) : undefined;
  const next = async () => {
    try {
      const found = await page(cursor);
      setMore({ rows: [...(extra?.rows ?? []), ...found.data], cursor: found.has_more ? (found.next_cursor ?? undefined) : undefined, for: asked });
    } catch (failure) {
      setTrouble(failure as Failure);
    }
  };
  const [at, setAt] = useState(-1);
  const body = useRef<HTMLTableSectionElement>(null);
  const move = (by: number) => {
    const n = Math.max(0, Math.min(rows.length - 1, at + by));
    setAt(n);
    body.current?.querySelectorAll<HTMLAnchorElement>('a.row-link')[n]?.focus();
  };
  const here = rows[at];
  useCommands([
    { keys: 'j', label: 'Next session', group: 'Sessions', run: () => move(1) },
    { keys: 'k', label: 'Previous session', group: 'Sessions', run: () => move(-1) },
    { keys: 'enter', label: 'Open the session', group: 'Sessions', run: () => here && route(to.session(p, here.id)) },
    { keys: 'x', label: 'X-ray of the session', group: 'Sessions', run: () => here && route(to.xray(p, here.id, here.window?.decision_id)) },
    { keys: '/', label: 'Search sessions', group: 'Sessions', run: () => search.current?.focus() },
  ]);
  const filtered = !!(query.q || query.agent || query.kind || query.since);
  return (
    <div class="screen">
      <Head trail={[['Projects', to.projects()]]} title={<>Sessions of <Hostile text={p} /></>} />
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <input ref={search} type="search" aria-label="Search sessions by id, title or words" placeholder="Search by id, title or words  /" value={query.q ?? ''} onInput={(e) => set({ q: e.currentTarget.value })} />
        <label><span class="sr">Agent</span><input aria-label="Agent" placeholder="Agent" value={query.agent ?? ''} onInput={(e) => set({ agent: e.currentTarget.value })} /></label>
        <label>
          <span class="sr">Kind</span>
          <select value={query.kind ?? ''} onChange={(e) => set({ kind: e.currentTarget.value })}>
            <option value="">Any kind</option>
            <option value="chat">Chat</option>
            <option value="background">Background</option>
          </select>
        </label>
        <label>
          <span class="sr">Active</span>
          <select value={query.since ?? ''} onChange={(e) => set({ since: e.currentTarget.value })}>
            {days.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
          </select>
        </label>
        <label>
          <span class="sr">Order</span>
          <select value={sort} onChange={(e) => set({ sort: e.currentTarget.value })}>
            {query.q && <option value="relevance">Best match</option>}
            <option value="-last_activity_at">Newest</option>
            <option value="-turns">Most turns</option>
            <option value="-tokens">Most tokens</option>
            <option value="id">By id</option>
          </select>
        </label>
      </form>
      {(first.error ?? trouble) && <Trouble error={(first.error ?? trouble)!} retry={first.reload} />}
      {!first.data && first.loading && <Waiting rows={8} />}
      {first.data && rows.length === 0 && (filtered ? <p class="nothing">No session answers that.</p> : <FirstSteps project={p} />)}
      {rows.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Sessions">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">Session</th>
                <th scope="col" class="number">Turns</th>
                <th scope="col" class="number">Tokens</th>
                <th scope="col">Windows</th>
                <th scope="col">Newest window</th>
                <th scope="col" class="number">Cuts</th>
                <th scope="col" class="number">Prefix kept</th>
                <th scope="col">Active</th>
              </tr>
            </thead>
            <tbody ref={body}>
              {rows.map((s, i) => <SessionLine key={s.id} project={p} session={s} current={i === at} onFocus={() => setAt(i)} />)}
            </tbody>
          </table>
        </div>
      )}
      {cursor && <p class="more"><button type="button" onClick={() => void next()}>Show more</button></p>}
    </div>
  );
}

function SessionLine({ project, session: s, current, onFocus }: { project: string; session: Session; current: boolean; onFocus: () => void }) {
  const w = s.window;
  const said = s.match ? s.match.text : s.preview ? [s.preview.user, s.preview.assistant].filter(Boolean).join('  ·  ') : '';
  return (
    <tr class={current ? 'current' : ''}>
      <th scope="row">
        <a class="row-link" href={to.session(project, s.id)} onFocus={onFocus}>
          <Hostile text={s.title || s.id} />
        </a>{' '}
        {s.kind === 'background' && <Chip>background</Chip>} {s.agent && s.agent !== 'main' && <Chip><Hostile text={s.agent} /></Chip>}
        {said && <p class="said"><Hostile text={preview(said, 150)} /></p>}
      </th>
      <td class="number">{count(s.turns)}</td>
      <td class="number">{brief(s.tokens)}</td>
      <td>{w ? <Spark values={w.tokens} label={`Tokens of the newest ${many(w.tokens.length, 'window')}`} /> : <span class="muted">none</span>}</td>
      <td class="mini">
        {w && (
          <a href={to.xray(project, s.id, w.decision_id)} aria-label={`X-ray of ${s.id}, newest window ${count(w.usage.tokens)} tokens`}>
            <BudgetBar usage={w.usage} small />
            <span class="muted">{brief(w.usage.tokens)}</span>
          </a>
        )}
      </td>
      <td class="number">{w ? count(w.cuts) : ''}</td>
      <td class="number">{w?.prefix === null || w?.prefix === undefined ? '–' : percent(w.prefix)}</td>
      <td class="nowrap"><When at={s.last_activity_at} /></td>
    </tr>
  );
}
