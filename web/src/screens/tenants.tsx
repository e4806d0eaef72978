import { useLocation } from 'preact-iso';
import { useState } from 'preact/hooks';
import { api, Failure, take, type Schemas } from '../api/client';
import { ConfirmTyped, Copy, Dialog, ShowMore, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { usePages } from '../state/load';
import { to } from '../state/query';
import { who } from '../state/session';
import { ask } from './signin';

/** All tenants of the server, for its operator. */
export function Tenants() {
  const list = usePages((cursor, signal) => take(api.GET('/api/v1/tenants', { params: { query: { limit: 100, cursor } }, signal })), []);
  const { route } = useLocation();
  const workIn = async (tenant: string) => {
    await ask(tenant);
    route(to.projects());
  };
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<Schemas['TenantCreated']>();
  const [ending, setEnding] = useState<Schemas['Tenant']>();
  return (
    <section class="screen-part">
      <p class="actions"><button type="button" class="primary" onClick={() => setMaking(true)}>New tenant</button></p>
      {list.error && <Trouble error={list.error} retry={list.reload} />}
      {!list.loaded && list.loading && <Waiting />}
      {list.rows.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Tenants">
          <table class="list">
            <thead><tr><th scope="col">Tenant</th><th scope="col">Name</th><th scope="col">Made</th><th scope="col">Actions</th></tr></thead>
            <tbody>
              {list.rows.map((t) => (
                <tr key={t.id}>
                  <th scope="row"><code><Hostile text={t.id} /></code></th>
                  <td><Hostile text={t.name} /></td>
                  <td class="nowrap"><When at={t.created_at} /></td>
                  <td class="nowrap"><button type="button" onClick={() => void workIn(t.id)}>Work in it<span class="sr">, <Hostile text={t.id} /></span></button> <button type="button" class="danger-quiet" onClick={() => setEnding(t)}>Delete<span class="sr"> <Hostile text={t.id} /></span></button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <ShowMore next={list.next} />
      {making && <NewTenant onClose={() => setMaking(false)} onMade={(tenant) => { setMaking(false); setMade(tenant); list.reload(); }} />}
      {made && (
        <Dialog title="The tenant's first key" onClose={() => setMade(undefined)}>
          <p>It administers <b><Hostile text={made.id} /></b> and is shown this once.</p>
          <pre class="raw" tabIndex={0}>{made.admin_key}</pre>
          <div class="actions"><Copy text={() => made.admin_key}>Copy</Copy><button type="button" class="primary" onClick={() => setMade(undefined)}>I have it</button></div>
        </Dialog>
      )}
      {ending && (
        <ConfirmTyped title="Delete a tenant" name={ending.id} action="Delete it" onClose={() => setEnding(undefined)} onConfirm={async () => { await take(api.DELETE('/api/v1/tenants/{tenant}', { params: { path: { tenant: ending.id } } }));
          if (who.peek()?.tenant === ending.id) await ask(list.rows.find((t) => t.id !== ending.id)?.id); // No requests are possible in a deleted tenant.
          list.reload();
        }}>
          <p>Its projects, sessions, memories, policies, boards and keys are deleted permanently.</p>
        </ConfirmTyped>
      )}
    </section>
  );
}

function NewTenant({ onClose, onMade }: { onClose: () => void; onMade: (made: Schemas['TenantCreated']) => void }) {
  const [form, setForm] = useState({ id: '', name: '' });
  const [error, setError] = useState<Failure>();
  const submit = async (e: Event) => {
    e.preventDefault();
    try {
      onMade(await take(api.POST('/api/v1/tenants', { body: { id: form.id, ...(form.name ? { name: form.name } : {}) } })));
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="New tenant" onClose={onClose}>
      <form onSubmit={submit}>
        <label>Its id, which stays<input autoFocus required maxLength={128} value={form.id} onInput={(e) => setForm({ ...form, id: e.currentTarget.value })} autocomplete="off" spellcheck={false} /></label>
        <label>Its name<input value={form.name} onInput={(e) => setForm({ ...form, name: e.currentTarget.value })} autocomplete="off" /></label>
        {error && <Trouble error={error} />}
        <div class="actions"><button type="button" onClick={onClose}>Cancel</button><button type="submit" class="primary">Make it</button></div>
      </form>
    </Dialog>
  );
}
