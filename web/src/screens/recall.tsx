import { useState } from 'preact/hooks';
import { api, take } from '../api/client';
import { Empty, Head, Segmented, Trouble, Waiting } from '../components/basic';
import { RecallHit } from '../components/recallhit';
import { Hostile } from '../components/text';
import { many } from '../lib/format';
import { useLoad } from '../state/load';
import { to, useQuery } from '../state/query';
import { mayWrite } from '../state/session';

type Scope = 'memories' | 'transcript' | 'both';

/** What a question recalls, and why each result has its rank. */
export default function Recall({ p }: { p: string }) {
  const { query, set } = useQuery();
  const [typed, setTyped] = useState(query.q ?? '');
  const scope = (query.scope ?? 'both') as Scope;
  const found = useLoad(
    async (signal) =>
      query.q
        ? take(
            api.POST('/api/v1/projects/{project}/memories/recall', {
              params: { path: { project: p } },
              body: { query: query.q, scope, limit: Number(query.limit ?? 10), category: (query.category || undefined) as 'core' | undefined, session_id: query.session || undefined },
              signal,
            }),
          )
        : undefined,
    [p, query.q, scope, query.limit, query.category, query.session],
  );
  const hits = found.data?.data ?? [];
  const most = Math.max(1e-9, ...hits.map((h) => h.score));
  return (
    <div class="screen">
      <Head trail={[[p, to.sessions(p)], ['Memories', to.memories(p)]]} title="Recall" note={<>Results in <Hostile text={p} />, with the parts of their scores.</>} />
      {!mayWrite.value && <p class="banner">Recall needs a key with the role agent.</p>}
      <form
        class="filters"
        role="search"
        onSubmit={(e) => {
          e.preventDefault();
          set({ q: typed }, true);
        }}
      >
        <input type="search" autoFocus aria-label="Question" placeholder="Ask as an agent would" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} />
        <button type="submit" class="primary">Recall</button>
        <Segmented label="Where" value={scope} options={[['memories', 'Memories'], ['transcript', 'Transcripts'], ['both', 'Both']]} onChange={(v) => set({ scope: v })} />
        <label><span class="sr">Category</span>
          <select value={query.category ?? ''} onChange={(e) => set({ category: e.currentTarget.value })}>
            <option value="">Any category</option><option value="core">Core</option><option value="daily">Daily</option><option value="conversation">Conversation</option>
          </select>
        </label>
        <input aria-label="Session" placeholder="Session" value={query.session ?? ''} onInput={(e) => set({ session: e.currentTarget.value })} />
      </form>
      {found.error && <Trouble error={found.error} retry={found.reload} />}
      {query.q && !found.data && found.loading && <Waiting />}
      {!query.q && <Empty title="Ask something"><p>Words, a name, a date. <code>*</code> lists the latest.</p></Empty>}
      {query.q && found.data && (
        <>
          <p class="muted" aria-live="polite">
            {many(hits.length, 'hit')}{found.data.vectors === 'used' ? ', by words and meaning' : found.data.vectors ? `, by words alone (${found.data.vectors})` : ''}{found.data.incomplete && ', not everything could be searched'}{found.data.unindexed_messages ? `, ${many(found.data.unindexed_messages, 'message')} not indexed yet` : ''}
          </p>
          <ol class="hits">
            {hits.map((h, i) => <RecallHit key={`${h.kind} ${h.key ?? h.message_id}`} project={p} hit={h} most={most} rank={i + 1} />)}
          </ol>
        </>
      )}
    </div>
  );
}
