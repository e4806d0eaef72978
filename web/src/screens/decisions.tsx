import { api, take } from '../api/client';
import { BudgetBar } from '../components/budgetbar';
import { Chip, Head, ShowMore, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { brief, count, percent } from '../lib/format';
import { usePages } from '../state/load';
import { to, useQuery } from '../state/query';
import { useRows } from '../state/rows';

const outcomes = ['failed', 'ok', 'fallback', 'fuel_exhausted', 'trap', 'depth', 'memory', 'bad_plan', 'host_quota', 'timeout', 'author_error', 'unavailable'] as const;

/** All windows, newest first: their tokens, what they left out, and the outcomes of their policies. */
export default function Decisions({ p }: { p: string }) {
  const { query, set } = useQuery();
  const page = (cursor?: string, signal?: AbortSignal) =>
    take(
      api.GET('/api/v1/projects/{project}/decisions', {
        params: {
          path: { project: p },
          query: { limit: 50, cursor, session_id: query.session || undefined, policy: query.policy || undefined, outcome: (query.outcome || undefined) as (typeof outcomes)[number] | undefined, cut: (query.cut || undefined) as 'true' | undefined },
        },
        signal,
      }),
    );
  const body = useRows('Decisions', 'decision');
  const list = usePages(page, [p, query.session, query.policy, query.outcome, query.cut]);
  return (
    <div class="screen">
      <Head trail={[['Projects', to.projects()]]} title={<>Decisions of <Hostile text={p} /></>} note="Each window is stored as a decision, so that it can be explained and recomputed." />
      <form class="filters" onSubmit={(e) => e.preventDefault()}>
        <input type="search" aria-label="Session" placeholder="Session" value={query.session ?? ''} onInput={(e) => set({ session: e.currentTarget.value })} />
        <input type="search" aria-label="Policy" placeholder="Policy, or policy@version" value={query.policy ?? ''} onInput={(e) => set({ policy: e.currentTarget.value })} />
        <label><span class="sr">Outcome</span>
          <select value={query.outcome ?? ''} onChange={(e) => set({ outcome: e.currentTarget.value })}>
            <option value="">Any outcome</option>
            {outcomes.map((o) => <option key={o} value={o}>{o.replaceAll('_', ' ')}</option>)}
          </select>
        </label>
        <label><span class="sr">Cut</span>
          <select value={query.cut ?? ''} onChange={(e) => set({ cut: e.currentTarget.value })}>
            <option value="">Cut or not</option>
            <option value="true">Cut</option>
            <option value="false">Not cut</option>
          </select>
        </label>
      </form>
      {list.error && <Trouble error={list.error} retry={list.reload} />}
      {!list.loaded && list.loading && <Waiting rows={8} />}
      {list.loaded && list.rows.length === 0 && <p class="nothing">No decision answers that.{list.next ? ' Older ones may.' : ''}</p>}
      {list.rows.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Decisions">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">When</th><th scope="col">Session</th><th scope="col" class="number">Turn</th><th scope="col">Window</th>
                <th scope="col" class="number">Left out</th><th scope="col" class="number">Prefix kept</th><th scope="col">Format</th><th scope="col">Steps</th>
              </tr>
            </thead>
            <tbody ref={body}>
              {list.rows.map((r) => {
                const failed = r.outcomes.filter((o) => o.outcome !== 'ok');
                return (
                  <tr key={r.decision_id ?? r.created_at + r.session_id}>
                    <td class="nowrap">{r.decision_id ? <a class="row-link" href={to.xray(p, r.session_id, r.decision_id)}><When at={r.created_at} /><span class="sr"> X-ray</span></a> : <When at={r.created_at} />}</td>
                    <td><a href={to.session(p, r.session_id)}><Hostile text={r.session_id} /></a>{r.viewer.agent && <> <Chip><Hostile text={r.viewer.agent} /></Chip></>}{r.fork_of && <> <Chip>fork</Chip></>}</td>
                    <td class="number">{count(r.turn)}</td>
                    <td class="mini"><BudgetBar usage={r.usage} small /><span class="muted">{brief(r.usage.tokens)}</span></td>
                    <td class="number">{r.left_out.count ? `${count(r.left_out.count)} · ${brief(r.left_out.tokens)}` : '–'}</td>
                    <td class="number">{r.usage.prefix ? percent(r.usage.prefix.share) : '–'} {r.cut && <Chip tone="short">cut</Chip>}</td>
                    <td class="nowrap">{r.format}</td>
                    <td>{failed.length === 0 ? <Chip tone="keep">{r.outcomes.length} ok</Chip> : failed.map((o) => <Chip key={o.policy} tone="drop"><Hostile text={o.policy} /> {o.outcome.replaceAll('_', ' ')}</Chip>)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      <ShowMore next={list.next} />
    </div>
  );
}
