import { useLocation } from 'preact-iso';
import { useRef } from 'preact/hooks';
import { api, take, type Schemas } from '../api/client';
import { BudgetBar } from '../components/budgetbar';
import { Chip, Head, ShowMore, Spark, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { brief, count, many, percent, preview } from '../lib/format';
import { usePages } from '../state/load';
import { to, useQuery } from '../state/query';
import { useRows } from '../state/rows';
import { FirstSteps } from './projects';

type Session = Schemas['SessionRow'];
type Sort = '-last_activity_at' | '-turns' | '-tokens' | 'id' | 'relevance';

const days: [string, string][] = [['', 'Any time'], ['1', 'Last day'], ['7', 'Last 7 days'], ['30', 'Last 30 days']];

/** The sessions of a project: the latest messages, how full the window is, and how often it was cut. */
export default function Sessions({ p }: { p: string }) {
  const { query, set } = useQuery();
  const { route } = useLocation();
  const search = useRef<HTMLInputElement>(null);
  const sort = (query.sort ?? (query.q ? 'relevance' : '-last_activity_at')) as Sort;
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
  const list = usePages(page, [p, query.q, query.agent, query.kind, query.since, sort]);
  const body = useRows('Sessions', 'session', (at) => [
    { keys: 'enter', label: 'Open the session', group: 'Sessions', run: () => open(at(), (s) => to.session(p, s.id)) },
    { keys: 'x', label: 'X-ray of the session', group: 'Sessions', run: () => open(at(), (s) => to.xray(p, s.id, s.window?.decision_id)) },
    { keys: '/', label: 'Search sessions', group: 'Sessions', run: () => search.current?.focus() },
  ]);
  const open = (at: number, path: (s: Session) => string) => {
    const here = list.rows[at];
    if (here) route(path(here));
  };
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
      {list.error && <Trouble error={list.error} retry={list.reload} />}
      {!list.loaded && list.loading && <Waiting rows={8} />}
      {list.loaded && list.rows.length === 0 && (filtered ? <p class="nothing">No matching sessions.</p> : <FirstSteps project={p} />)}
      {list.rows.length > 0 && (
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
              {list.rows.map((s) => <SessionLine key={s.id} project={p} session={s} />)}
            </tbody>
          </table>
        </div>
      )}
      <ShowMore next={list.next} />
    </div>
  );
}

function SessionLine({ project, session: s }: { project: string; session: Session }) {
  const w = s.window;
  const said = s.match ? s.match.text : s.preview ? [s.preview.user, s.preview.assistant].filter(Boolean).join('  ·  ') : '';
  return (
    <tr>
      <th scope="row">
        <a class="row-link" href={to.session(project, s.id)}>
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
