import { useState } from 'preact/hooks';
import { api, Failure, pages, take, type Schemas } from '../api/client';
import { Chip, ConfirmTyped, Copy, Dialog, Head, Segmented, ShowMore, Spark, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { brief, bytes, count, many, moment } from '../lib/format';
import { useLocation } from 'preact-iso';
import { useLoad, usePages } from '../state/load';
import { useProjects } from '../state/projects';
import { to } from '../state/query';
import { mayAdminister, operates, who } from '../state/session';
import { Tenants } from './tenants';

type Page = 'tenants' | 'keys' | 'usage' | 'limits' | 'retention' | 'audit';
const ofTenant: [Page, string][] = [['keys', 'Keys'], ['usage', 'Summaries'], ['limits', 'Limits'], ['retention', 'Retention'], ['audit', 'Audit log']];

/** The administration of the whole tenant. */
export default function Admin({ page }: { page: string }) {
  const { route } = useLocation();
  const tenant = who.value?.tenant;
  const names: [Page, string][] = [...(operates.value ? [['tenants', 'Tenants'] as [Page, string]] : []), ...(tenant ? ofTenant : [])];
  const shown = names.find(([id]) => id === page);
  if (!mayAdminister.value) return <div class="screen"><Head title="Administration" note="This needs a key of the role tenant admin." /></div>;
  return (
    <div class="screen">
      <Head title={shown?.[1] ?? 'Administration'} note={tenant ? <>Tenant <b><Hostile text={tenant} /></b></> : 'The operator of this server: choose the tenant to work in.'} />
      <Segmented<Page> label="Pages" value={shown?.[0] ?? names[0]![0]} options={names} onChange={(id) => route(to.admin(id))} />
      {shown?.[0] === 'tenants' && <Tenants />}
      {shown?.[0] === 'keys' && <Keys />}
      {shown?.[0] === 'usage' && <Summaries />}
      {shown?.[0] === 'limits' && <Limits />}
      {shown?.[0] === 'retention' && <Retention />}
      {shown?.[0] === 'audit' && <Audit />}
      {!shown && <p class="nothing">There is no such page.</p>}
    </div>
  );
}

function Keys() {
  const list = useLoad((signal) => pages<Schemas['Key']>(1000, (cursor) => take(api.GET('/api/v1/keys', { params: { query: { limit: 200, cursor } }, signal }))), []);
  const [making, setMaking] = useState(false);
  const [secret, setSecret] = useState<Schemas['KeyCreated']>();
  const [ending, setEnding] = useState<Schemas['Key']>();
  const [trouble, setTrouble] = useState<Failure>();
  const rotate = async (id: string) => {
    setTrouble(undefined);
    try {
      setSecret(await take(api.POST('/api/v1/keys/{key}/rotate', { params: { path: { key: id } } })));
      list.reload();
    } catch (failure) {
      setTrouble(failure as Failure);
    }
  };
  return (
    <section class="screen-part">
      <p class="actions"><button type="button" class="primary" onClick={() => setMaking(true)}>New key</button></p>
      {(list.error ?? trouble) && <Trouble error={(list.error ?? trouble)!} retry={list.reload} />}
      {!list.data && list.loading && <Waiting />}
      {list.data && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Keys">
          <table class="list">
            <thead><tr><th scope="col">Key</th><th scope="col">Role</th><th scope="col">Projects</th><th scope="col">Agent</th><th scope="col">Last used</th><th scope="col">Expires</th><th scope="col">Actions</th></tr></thead>
            <tbody>
              {list.data.map((k) => (
                <tr key={k.id}>
                  <td><b><Hostile text={k.name || 'unnamed'} /></b> {k.id === who.value?.key_id && <Chip tone="inject">yours</Chip>}<p class="muted"><code>{k.id}</code></p></td>
                  <td class="nowrap">{k.role.replace('_', ' ')}</td>
                  <td>{k.projects ? <Hostile text={k.projects.join(', ')} /> : 'all projects'}{k.namespaces && <p class="muted"><Hostile text={'in ' + k.namespaces.map((n) => n.join(' / ')).join(', ')} /></p>}</td>
                  <td>{k.agent ? <Hostile text={k.agent} /> : '–'}</td>
                  <td class="nowrap">{k.last_used_at ? <When at={k.last_used_at} /> : 'never'}</td>
                  <td class="nowrap">{k.expires_at ? <When at={k.expires_at} /> : 'never'}</td>
                  <td class="nowrap"><button type="button" onClick={() => void rotate(k.id)}>Rotate<span class="sr"> {k.name}</span></button> <button type="button" class="danger-quiet" onClick={() => setEnding(k)}>Delete<span class="sr"> {k.name}</span></button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {making && <NewKey onClose={() => setMaking(false)} onMade={(made) => { setMaking(false); setSecret(made); list.reload(); }} />}
      {secret && (
        <Dialog title="The new secret" onClose={() => setSecret(undefined)}>
          <p>It is shown this once. {secret.previous_valid_until && <>The former secret works until {moment(secret.previous_valid_until)}.</>}</p>
          <pre class="raw" tabIndex={0}>{secret.key}</pre>
          <div class="actions"><Copy text={() => secret.key}>Copy</Copy><button type="button" class="primary" onClick={() => setSecret(undefined)}>I have it</button></div>
        </Dialog>
      )}
      {ending && (
        <ConfirmTyped title="Delete a key" name={ending.name || ending.id} action="Delete it" onClose={() => setEnding(undefined)} onConfirm={async () => { await take(api.DELETE('/api/v1/keys/{key}', { params: { path: { key: ending.id } } })); list.reload(); }}>
          <p>It stops working at once, and so do browsers that signed in with it.{ending.id === who.value?.key_id && ' It is the key that you signed in with.'}</p>
        </ConfirmTyped>
      )}
    </section>
  );
}

function NewKey({ onClose, onMade }: { onClose: () => void; onMade: (made: Schemas['KeyCreated']) => void }) {
  const { projects } = useProjects();
  const [name, setName] = useState('');
  const [role, setRole] = useState<Schemas['KeySpec']['role']>('agent');
  const [within, setWithin] = useState('');
  const [days, setDays] = useState('');
  const [namespaces, setNamespaces] = useState('');
  const [error, setError] = useState<Failure>();
  const narrowed = role === 'tenant_admin' ? [] : namespaces.split('\n').map((line) => line.split('/').map((part) => part.trim()).filter(Boolean)).filter((n) => n.length > 0);
  const submit = async (e: Event) => {
    e.preventDefault();
    try {
      onMade(await take(api.POST('/api/v1/keys', { body: { name, role, ...(within ? { projects: [within] } : {}), ...(narrowed.length ? { namespaces: narrowed } : {}), ...(days ? { expires_at: new Date(Date.now() + Number(days) * 86_400_000).toISOString() } : {}) } })));
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="New key" onClose={onClose}>
      <form onSubmit={submit}>
        <label>Its name<input autoFocus required value={name} onInput={(e) => setName(e.currentTarget.value)} autocomplete="off" /></label>
        <label>Its role
          <select value={role} onChange={(e) => setRole(e.currentTarget.value as typeof role)}>
            <option value="reader">reader: looks</option><option value="agent">agent: reads and stores</option><option value="tenant_admin">tenant admin: everything in the tenant</option>
          </select>
        </label>
        <label>What it reaches
          <select value={within} onChange={(e) => setWithin(e.currentTarget.value)}>
            <option value="">all projects</option>
            {projects?.map((p) => <option key={p.id} value={p.id}>{p.name || p.id}</option>)}
          </select>
        </label>
        {role !== 'tenant_admin' && <label>Only these namespaces of memories, one per line, such as users / ada (empty: all)<textarea rows={2} value={namespaces} onInput={(e) => setNamespaces(e.currentTarget.value)} /></label>}
        <label>Valid for days (empty: no expiry)<input type="number" min={1} value={days} onInput={(e) => setDays(e.currentTarget.value)} /></label>
        {error && <Trouble error={error} />}
        <div class="actions"><button type="button" onClick={onClose}>Cancel</button><button type="submit" class="primary">Make it</button></div>
      </form>
    </Dialog>
  );
}

function Summaries() {
  const usage = useLoad((signal) => take(api.GET('/api/v1/usage', { signal })), []);
  const u = usage.data;
  const days = [...(u?.days ?? [])].reverse();
  return (
    <section aria-label="Summaries" class="cards-of">
      {usage.error && <Trouble error={usage.error} retry={usage.reload} />}
      {!u && usage.loading && <Waiting rows={3} />}
      {u && (
        <article class="card">
          <h2>Summaries</h2>
          <p class="muted">Calls of the model that makes them, over the last 400 days. The usage page of each project has the project's own figures.</p>
          <dl class="figures">
            <div><dt>Calls</dt><dd>{count(u.summaries.calls)}</dd></div>
            <div class={u.summaries.failures ? 'bad' : ''}><dt>Failed</dt><dd>{count(u.summaries.failures)}</dd></div>
            <div><dt>Tokens in</dt><dd>{brief(u.summaries.tokens_in)}</dd></div>
            <div><dt>Tokens out</dt><dd>{brief(u.summaries.tokens_out)}</dd></div>
          </dl>
          {days.length > 0 && <Spark values={days.map((d) => d.summaries.tokens_in + d.summaries.tokens_out)} label={`Tokens of ${many(days.length, 'day')}`} />}
        </article>
      )}
      {u?.embeddings && (
        <article class="card">
          <h2>Embeddings</h2>
          <p class="muted">Calls of the models that make vectors of memories, messages and queries, over the last 400 days.</p>
          <dl class="figures">
            <div><dt>Calls</dt><dd>{count(u.embeddings.calls)}</dd></div>
            <div class={u.embeddings.failures ? 'bad' : ''}><dt>Failed</dt><dd>{count(u.embeddings.failures)}</dd></div>
            <div><dt>Tokens</dt><dd>{brief(u.embeddings.tokens)}</dd></div>
          </dl>
        </article>
      )}
    </section>
  );
}

function Limits() {
  const l = who.value?.limits;
  if (!l) return <Waiting />;
  const or = (n: number | null, show: (n: number) => string) => (n === null ? 'no limit' : show(n));
  const rows: [string, string][] = [
    ['Requests a second', or(l.requests_per_second, count)],
    ['Requests at once', or(l.requests_burst, count)],
    ['Bytes of messages', or(l.message_bytes, bytes)],
    ['Memories', or(l.memories, count)],
    ['Bytes of memories', or(l.memory_bytes, bytes)],
    ['Versions of policies', or(l.policy_versions, count)],
    ['Bytes of policies', or(l.policy_bytes, bytes)],
    ['Bytes of one request', bytes(l.body_bytes)],
  ];
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Limits">
      <table class="list">
        <caption class="muted">The operator sets them when the server starts. Requests beyond a limit are refused; stored data is not affected.</caption>
        <thead><tr><th scope="col">What</th><th scope="col">Limit</th></tr></thead>
        <tbody>{rows.map(([name, value]) => <tr key={name}><td>{name}</td><td>{value}</td></tr>)}</tbody>
      </table>
    </div>
  );
}

function Retention() {
  const { project } = useProjects();
  const stats = useLoad((signal) => take(api.GET('/api/v1/admin/agent/conversations/stats', { params: { query: { project_id: project } }, signal })), [project]);
  const settings = useLoad((signal) => take(api.GET('/api/v1/projects/{project}/settings', { params: { path: { project } }, signal })), [project]);
  const [days, setDays] = useState('90');
  const [would, setWould] = useState<Schemas['Purged']>();
  const [ran, setRan] = useState<Schemas['RetentionRun']>();
  const [purging, setPurging] = useState(false);
  const [error, setError] = useState<Failure>();
  const purge = (dry_run: boolean) => take(api.DELETE('/api/v1/admin/agent/conversations/purge', { params: { query: { project_id: project, older_than_days: Number(days), dry_run } } }));
  const attempt = async (what: () => Promise<void>) => {
    setError(undefined);
    try {
      await what();
      stats.reload();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  const s = settings.data;
  return (
    <section aria-label="Retention" class="cards-of">
      {(stats.error ?? error) && <Trouble error={(stats.error ?? error)!} retry={stats.reload} />}
      <article class="card">
        <h2>What is kept in <Hostile text={project} /></h2>
        {stats.data && <p>{many(stats.data.total, 'conversation')}{stats.data.oldest_at && <>, the oldest begun {moment(stats.data.oldest_at)}</>}.</p>}
        {s && <p class="muted">Conversations {s.conversation_retention_days === null ? 'for good' : `for ${many(s.conversation_retention_days, 'day')}`}, decisions for {many(s.decision_retention_days, 'day')}, daily memories for {many(s.daily_memory_days, 'day')}. <a href={to.settings(project)}>Change it</a></p>}
        <p class="actions"><button type="button" onClick={() => void attempt(async () => setRan(await take(api.POST('/api/v1/admin/retention'))))}>Delete expired data now</button></p>
        {ran && <p role="status">{Object.entries(ran.removed).map(([kind, n]) => `${count(n)} ${kind.replaceAll('_', ' ')}`).join(', ') || 'Nothing was'} removed{ran.finished ? '.' : '; the rest goes in the background.'}</p>}
      </article>
      <article class="card">
        <h2>Purge conversations by age</h2>
        <form class="filters" onSubmit={(e) => { e.preventDefault(); void attempt(async () => setWould(await purge(true))); }}>
          <label class="inline">without a turn for <input type="number" min={0} max={36500} required value={days} onInput={(e) => { setDays(e.currentTarget.value); setWould(undefined); }} /> days</label>
          <button type="submit">Count them</button>
        </form>
        {would && <p role="status">{would.dry_run ? `${many(would.deleted_conversations, 'conversation')} would be deleted.` : `${many(would.deleted_conversations, 'conversation')} deleted.`} {would.dry_run && would.deleted_conversations > 0 && <button type="button" class="danger-quiet" onClick={() => setPurging(true)}>Delete them permanently</button>}</p>}
      </article>
      {purging && (
        <ConfirmTyped title="Purge conversations" name={project} action="Delete them" onClose={() => setPurging(false)} onConfirm={async () => { setWould(await purge(false)); stats.reload(); }}>
          <p>{many(would?.deleted_conversations ?? 0, 'conversation')} with all turns and decisions are lost for good.</p>
        </ConfirmTyped>
      )}
    </section>
  );
}

function Audit() {
  const page = (cursor?: string, signal?: AbortSignal) => take(api.GET('/api/v1/audit', { params: { query: { limit: 100, cursor } }, signal }));
  const list = usePages(page, []);
  return (
    <section class="screen-part">
      {list.error && <Trouble error={list.error} retry={list.reload} />}
      {!list.loaded && list.loading && <Waiting />}
      {list.loaded && list.rows.length === 0 && <p class="nothing">No changes yet.</p>}
      {list.rows.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Changes">
          <table class="list">
            <thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Of</th><th scope="col">By</th><th scope="col">Detail</th></tr></thead>
            <tbody>
              {list.rows.map((r) => <tr key={r.id}><td class="nowrap"><time dateTime={r.created_at} title={r.created_at}>{moment(r.created_at)}</time></td><td class="nowrap"><Chip>{r.action}</Chip></td><td><Hostile text={r.subject} /></td><td class="nowrap">{r.key_id ? <code>{r.key_id}</code> : 'Mneme'} <span class="muted">{r.role.replace('_', ' ')}</span></td><td class="detail"><Hostile text={r.detail} /></td></tr>)}
            </tbody>
          </table>
        </div>
      )}
      <ShowMore next={list.next} />
    </section>
  );
}
