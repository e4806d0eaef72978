import { useEffect, useState } from 'preact/hooks';
import { api, Failure, pages, take, type Schemas } from '../api/client';
import { Chip, Head, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { many } from '../lib/format';
import { useLoad } from '../state/load';
import { to, useQuery } from '../state/query';
import { mayWrite } from '../state/session';
import { useStream } from '../state/stream';

type Entry = Schemas['BoardEntry'];

/** A board, live: entries appear as they are written, next to its agents and values. */
export default function BoardScreen({ b }: { b: string }) {
  const { query, set } = useQuery();
  const path = { board: b };
  const [fresh, setFresh] = useState<Entry[]>([]);
  const [paused, setPaused] = useState(false);
  const loaded = useLoad(
    async (signal) => {
      const [board, entries, agents, values] = await Promise.all([
        take(api.GET('/api/v1/boards/{board}', { params: { path }, signal })),
        take(api.GET('/api/v1/boards/{board}/memory', { params: { path, query: { limit: 200, q: query.q || undefined, is_chat: (query.kind === 'chat' ? 'true' : query.kind === 'notes' ? 'false' : undefined) as 'true' | undefined } }, signal })),
        pages<Schemas['BoardAgent']>(1000, (cursor) => take(api.GET('/api/v1/boards/{board}/agents', { params: { path, query: { limit: 200, cursor } }, signal }))),
        pages<Schemas['BoardValue']>(1000, (cursor) => take(api.GET('/api/v1/boards/{board}/values', { params: { path, query: { limit: 200, cursor } }, signal }))),
      ]);
      // Keep what the stream delivered: it may be newer than the responses.
      setFresh((list) => list.filter((e) => e.board_id === b));
      return { board, entries: entries.items, total: entries.total, agents, values };
    },
    [b, query.q, query.kind],
  );
  const state = useStream(paused ? undefined : `/api/v1/boards/${encodeURIComponent(b)}/memory/stream`, (event) => {
    const entry = (JSON.parse(event.data) as { memory: Entry }).memory;
    setFresh((list) => (list.some((e) => e.id === entry.id) ? list : [entry, ...list].slice(0, 500)));
    if (entry.is_chat && entry.content.startsWith('/')) loaded.reload(); // it may pause or resume agents
  });
  // Entries from before the stream began, or while it was paused, come with the lists.
  useEffect(() => {
    if (state === 'live') loaded.reload();
  }, [state]);
  const d = loaded.data;
  const fits = (e: Entry) => (!query.kind || (query.kind === 'chat') === e.is_chat) && (!query.q || query.q.toLowerCase().split(/\s+/).every((w) => e.content.toLowerCase().includes(w)));
  const old = new Set(d?.entries.map((e) => e.id));
  const entries = [...fresh.filter((e) => !old.has(e.id) && fits(e)), ...(d?.entries ?? [])];
  const stopped = d?.agents.filter((a) => a.paused) ?? [];
  return (
    <div class="screen">
      <Head trail={[['Boards', to.boards()]]} title={<Hostile text={d?.board.name || b} />} note={d && <>{many(d.total + fresh.filter((e) => !old.has(e.id)).length, 'entry', 'entries')}, kept for {d.board.retention_days === null ? 'good' : many(d.board.retention_days, 'day')}</>}>
        <span role="status"><Chip tone={state === 'live' ? 'keep' : state === 'ended' ? 'drop' : 'short'}>{paused ? 'paused' : state === 'live' ? '● live' : state === 'ended' ? 'the board is gone' : 'connecting…'}</Chip></span>
        <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>{paused ? 'Go on' : 'Pause'}</button>
      </Head>
      {loaded.error && <Trouble error={loaded.error} retry={loaded.reload} />}
      {!d && loaded.loading && <Waiting />}
      {stopped.length > 0 && <p class="banner">{stopped.map((a) => a.display_name || a.id).join(', ')} {stopped.length === 1 ? 'is' : 'are'} asked to pause. The chat <code>/resume</code> undoes it.</p>}
      {d && (
        <div class="board">
          <section class="screen-part" aria-label="Entries">
            <form class="filters" onSubmit={(e) => e.preventDefault()}>
              <input type="search" aria-label="Words" placeholder="Words of entries" value={query.q ?? ''} onInput={(e) => set({ q: e.currentTarget.value })} />
              <label><span class="sr">Kind</span>
                <select value={query.kind ?? ''} onChange={(e) => set({ kind: e.currentTarget.value })}>
                  <option value="">Chat and notes</option>
                  <option value="chat">Chat</option>
                  <option value="notes">Notes</option>
                </select>
              </label>
            </form>
            {mayWrite.value && <Post board={b} />}
            <ol class="timeline" aria-label="Newest first" aria-live="polite" aria-relevant="additions">
              {entries.map((e) => (
                <li key={e.id} class={old.has(e.id) ? '' : 'now'}>
                  <div class="item-head">
                    <b>{e.source ? <Hostile text={e.source} /> : 'nobody named'}</b> {e.is_chat && <Chip tone="inject">chat</Chip>} {e.tags.filter((t) => t !== 'chat').map((t) => <Chip key={t}><Hostile text={t} /></Chip>)}
                    <span class="grow" /><span class="muted"><When at={e.created_at} /></span>
                  </div>
                  <div class="prose">{e.damaged ? <Chip tone="drop">damaged</Chip> : <Hostile text={e.content} />}</div>
                </li>
              ))}
            </ol>
            {entries.length === 0 && <p class="nothing">No matching entries.</p>}
          </section>
          <aside>
            <h2>Agents</h2>
            {d.agents.length === 0 && <p class="muted">No agents yet.</p>}
            <ul>
              {d.agents.map((a) => <li key={a.id}><b><Hostile text={a.display_name || a.id} /></b> <code>@<Hostile text={a.id} /></code> {a.lead && <Chip tone="summary">lead</Chip>} {a.paused && <Chip tone="short">paused</Chip>}</li>)}
            </ul>
            <h2>Values</h2>
            {d.values.length === 0 && <p class="muted">None is kept.</p>}
            <dl>
              {d.values.map((v) => <div key={v.key}><dt><code><Hostile text={v.key} /></code> <span class="muted"><When at={v.updated_at} /></span></dt><dd><pre class="raw" tabIndex={0}><Hostile text={JSON.stringify(v.value, null, 2)} /></pre></dd></div>)}
            </dl>
            <p class="muted">{many(d.values.length, 'value')}; a value is replaced by whoever writes it next.</p>
          </aside>
        </div>
      )}
    </div>
  );
}

/** A form that posts as the signed-in person. The stream delivers the entry. */
function Post({ board }: { board: string }) {
  const [text, setText] = useState('');
  const [error, setError] = useState<Failure>();
  const post = async (e: Event) => {
    e.preventDefault();
    if (!text.trim()) return;
    setError(undefined);
    try {
      await take(api.POST('/api/v1/boards/{board}/memory', { params: { path: { board } }, body: { content: text, is_chat: true } }));
      setText('');
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <form class="filters" onSubmit={post}>
      <input type="search" aria-label="A chat message" placeholder="Write a message; @agent mentions one" value={text} onInput={(e) => setText(e.currentTarget.value)} />
      <button type="submit">Post</button>
      {error && <Trouble error={error} />}
    </form>
  );
}
