import { useState } from 'preact/hooks';
import { api, Failure, take, type Schemas } from '../api/client';
import { Chip, Dialog, Empty, Head, ShowMore, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { preview } from '../lib/format';
import { usePages } from '../state/load';
import { to, useQuery } from '../state/query';
import { useRows } from '../state/rows';
import { mayWrite } from '../state/session';

type Memory = Schemas['Memory'];
type Category = Schemas['MemoryCategory'];
export const tones: Record<Category, string> = { core: 'inject', daily: 'short', conversation: 'strip' };

/** The memories of a project: facts with keys, which windows recall. */
export default function Memories({ p }: { p: string }) {
  const { query, set } = useQuery();
  const [adding, setAdding] = useState(false);
  const namespace = namespaceOf(query.ns);
  const page = (cursor?: string, signal?: AbortSignal) =>
    take(
      api.GET('/api/v1/projects/{project}/memories', {
        params: {
          path: { project: p },
          query: { limit: 100, cursor, category: (query.category || undefined) as Category | undefined, tags: query.tag ? [query.tag] : undefined, source: query.source || undefined, session_id: query.session || undefined, namespace },
        },
        signal,
      }),
    );
  const body = useRows('Memories', 'memory');
  const list = usePages(page, [p, query.category, query.tag, query.source, query.session, query.ns]);
  const filtered = !!(query.category || query.tag || query.source || query.session || namespace);
  return (
    <div class="screen">
      <Head trail={[['Projects', to.projects()]]} title={<>Memories of <Hostile text={p} /></>} note={<>Facts that outlive a session. <a href={to.recall(p)}>Try what a question would recall.</a></>}>
        {mayWrite.value && <button type="button" class="primary" onClick={() => setAdding(true)}>New memory</button>}
      </Head>
      <form class="filters" onSubmit={(e) => e.preventDefault()}>
        <label><span class="sr">Category</span>
          <select value={query.category ?? ''} onChange={(e) => set({ category: e.currentTarget.value })}>
            <option value="">Any category</option>
            <option value="core">Core</option>
            <option value="daily">Daily</option>
            <option value="conversation">Conversation</option>
          </select>
        </label>
        <input aria-label="Tag" placeholder="Tag" value={query.tag ?? ''} onInput={(e) => set({ tag: e.currentTarget.value })} />
        <input aria-label="Source" placeholder="Source" value={query.source ?? ''} onInput={(e) => set({ source: e.currentTarget.value })} />
        <input aria-label="Session" placeholder="Session" value={query.session ?? ''} onInput={(e) => set({ session: e.currentTarget.value })} />
      </form>
      <Namespaces project={p} under={namespace} choose={(ns) => set({ ns: ns && JSON.stringify(ns) })} />
      {list.error && <Trouble error={list.error} retry={list.reload} />}
      {!list.loaded && list.loading && <Waiting rows={8} />}
      {list.loaded && list.rows.length === 0 && (filtered ? <p class="nothing">No matching memories.</p> : <Empty title="No memories yet"><p>Agents store memories with the tool memory_store, or with POST …/memories.</p></Empty>)}
      {list.rows.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Memories">
          <table class="list">
            <thead>
              <tr><th scope="col">Memory</th><th scope="col">Category</th><th scope="col">Tags</th><th scope="col" class="number">Importance</th><th scope="col" class="number">Version</th><th scope="col">Changed</th><th scope="col">Expires</th></tr>
            </thead>
            <tbody ref={body}>
              {list.rows.map((m) => (
                <tr key={JSON.stringify([m.namespace, m.key])}>
                  <th scope="row">
                    <a class="row-link" href={to.memory(p, m.key, m.namespace)}>{m.namespace && m.namespace.length > 0 && <span class="muted"><Hostile text={m.namespace.join(' / ')} /> / </span>}<Hostile text={m.key} /></a>
                    <p class="said two"><Hostile text={preview(m.content, 300)} /></p>
                  </th>
                  <td><Chip tone={tones[m.category]}>{m.category}</Chip>{m.trust && <p class="muted" title="How far to trust it">{m.trust}</p>}</td>
                  <td><div class="tags">{m.tags.map((t) => <button type="button" class="chip tone-plain" key={t} onClick={() => set({ tag: t })}><Hostile text={t} /></button>)}</div></td>
                  <td class="number"><Importance value={m.importance} /></td>
                  <td class="number">{m.version}</td>
                  <td class="nowrap"><When at={m.updated_at} /></td>
                  <td class="nowrap">{m.expires_at ? <When at={m.expires_at} /> : <span class="muted">never</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <ShowMore next={list.next} />
      {adding && <StoreMemory project={p} namespace={namespace} onClose={() => setAdding(false)} onStored={list.reload} />}
    </div>
  );
}

/** The namespace in the URL; undefined if there is none. */
export function namespaceOf(ns: string | undefined): string[] | undefined {
  try {
    const parts: unknown = JSON.parse(ns ?? '[]');
    return Array.isArray(parts) && parts.length > 0 && parts.every((part) => typeof part === 'string') ? parts : undefined;
  } catch {
    return undefined;
  }
}

/** Links to the namespaces below and above the listed one. */
function Namespaces({ project, under = [], choose }: { project: string; under?: string[]; choose: (namespace?: string[]) => void }) {
  const page = (cursor?: string, signal?: AbortSignal) =>
    take(api.GET('/api/v1/projects/{project}/namespaces', { params: { path: { project }, query: { limit: 50, cursor, namespace: under } }, signal }));
  const list = usePages(page, [project, JSON.stringify(under)]);
  const below = list.rows.filter((row) => row.namespace.length > under.length);
  if (list.error) return <Trouble error={list.error} retry={list.reload} />;
  if (under.length === 0 && below.length === 0) return null;
  return (
    <nav class="namespaces" aria-label="Namespaces">
      <p>
        <span class="muted">Namespace</span>
        {under.length > 0 && <button type="button" onClick={() => choose()}>All</button>}
        {under.map((part, i) => (i < under.length - 1 ? <button type="button" key={i} onClick={() => choose(under.slice(0, i + 1))}><Hostile text={part} /></button> : <strong key={i} aria-current="page"><Hostile text={part} /></strong>))}
      </p>
      {below.length > 0 && (
        <ul class="tags">
          {below.map(({ namespace }) => (
            <li key={JSON.stringify(namespace)}><button type="button" class="chip tone-plain" onClick={() => choose(namespace)}><Hostile text={namespace.slice(under.length).join(' / ')} /></button></li>
          ))}
        </ul>
      )}
      <ShowMore next={list.next} />
    </nav>
  );
}

export function Importance({ value }: { value: number }) {
  return (
    <span class="importance" title={`Importance ${value}`}>
      <span aria-hidden="true"><i style={{ width: `${Math.round(value * 100)}%` }} /></span> {value.toFixed(1)}
    </span>
  );
}

/** A form that stores a memory, or a new version of one. */
export function StoreMemory({ project, memory, namespace, onClose, onStored }: { project: string; memory?: Memory; namespace?: string[]; onClose: () => void; onStored: () => void }) {
  const [form, setForm] = useState({ key: memory?.key ?? '', content: memory?.content ?? '', category: memory?.category ?? ('core' as Category), tags: memory?.tags.join(', ') ?? '', importance: String(memory?.importance ?? 0) });
  const [error, setError] = useState<Failure>();
  const change = (part: Partial<typeof form>) => setForm({ ...form, ...part });
  const submit = async (e: Event) => {
    e.preventDefault();
    try {
      await take(
        api.POST('/api/v1/projects/{project}/memories', {
          params: { path: { project } },
          body: { namespace, ...(memory && { namespace: memory.namespace, metadata: memory.metadata, value: memory.value, occurred_at: memory.occurred_at, pinned: memory.pinned, standing: memory.standing }), key: form.key || undefined, content: form.content, category: form.category, importance: Number(form.importance), tags: form.tags.split(',').map((t) => t.trim()).filter(Boolean), source: 'console' },
        }),
      );
      onStored();
      onClose();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title={memory ? 'New version' : 'New memory'} onClose={onClose}>
      <form onSubmit={submit}>
        {namespace && <p class="muted">In <Hostile text={namespace.join(' / ')} /></p>}
        <label>Key<input value={form.key} disabled={!!memory} placeholder="left out: one is made" onInput={(e) => change({ key: e.currentTarget.value })} /></label>
        <label>Content<textarea autoFocus required rows={5} value={form.content} onInput={(e) => change({ content: e.currentTarget.value })} /></label>
        <div class="actions">
          <label>Category
            <select value={form.category} onChange={(e) => change({ category: e.currentTarget.value as Category })}>
              <option value="core">core</option><option value="daily">daily</option><option value="conversation">conversation</option>
            </select>
          </label>
          <label>Importance, 0 to 1<input type="number" min="0" max="1" step="0.1" value={form.importance} onInput={(e) => change({ importance: e.currentTarget.value })} /></label>
          <label>Tags, with commas<input value={form.tags} onInput={(e) => change({ tags: e.currentTarget.value })} /></label>
        </div>
        {error && <Trouble error={error} />}
        <div class="actions"><button type="button" onClick={onClose}>Cancel</button><button type="submit" class="primary">Store</button></div>
      </form>
    </Dialog>
  );
}
