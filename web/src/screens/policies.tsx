import { useState } from 'preact/hooks';
import { api, Failure, pages, take, type Schemas } from '../api/client';
import { Chip, Dialog, Head, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { bytes, count } from '../lib/format';
import { useLoad } from '../state/load';
import { to } from '../state/query';
import { mayAdminister } from '../state/session';

/** All policies, the tenant's own first: the live version of each, and whether it was rolled back. */
export default function Policies() {
  const list = useLoad((signal) => pages<Schemas['Policy']>(1000, (cursor) => take(api.GET('/api/v1/policies', { params: { query: { limit: 200, cursor } }, signal }))), []);
  const [uploading, setUploading] = useState(false);
  const sorted = [...(list.data ?? [])].sort((a, b) => Number(a.built_in) - Number(b.built_in) || a.name.localeCompare(b.name));
  return (
    <div class="screen">
      <Head title="Policies" note="A policy is a sandboxed module that decides what becomes of messages. Pipelines name them, and a bare name means the live version.">
        {mayAdminister.value && <button type="button" class="primary" onClick={() => setUploading(true)}>Upload a module</button>}
      </Head>
      {list.error && <Trouble error={list.error} retry={list.reload} />}
      {!list.data && list.loading && <Waiting />}
      {list.data && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Policies">
          <table class="list">
            <thead>
              <tr><th scope="col">Policy</th><th scope="col">Live</th><th scope="col" class="number">Versions</th><th scope="col" class="number">Size</th><th scope="col">State</th><th scope="col">Made</th></tr>
            </thead>
            <tbody>
              {sorted.map((p) => {
                const live = p.versions.find((v) => v.version === p.live);
                const back = p.versions.filter((v) => v.set_back);
                return (
                  <tr key={p.name}>
                    <td><a class="row-link" href={to.policy(p.name)}><Hostile text={p.name} /></a> {p.built_in && <Chip>comes with Mneme</Chip>}</td>
                    <td class="nowrap">version {p.live}</td>
                    <td class="number">{count(p.versions.length)}</td>
                    <td class="number nowrap">{live ? bytes(live.size) : '–'}</td>
                    <td>{back.length > 0 ? <Chip tone="drop">version {back[back.length - 1]!.version} was set back</Chip> : live && live.failures > 0 ? <Chip tone="short">{count(live.failures)} failures in a row</Chip> : <Chip tone="keep">fine</Chip>}</td>
                    <td class="nowrap"><When at={p.created_at} /></td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {uploading && <Upload onClose={() => setUploading(false)} onDone={list.reload} />}
    </div>
  );
}

/** Uploads a module as the next version of a policy, and shows each check that it passed or the one that it failed. */
export function Upload({ name: given, onClose, onDone }: { name?: string; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(given ?? '');
  const [file, setFile] = useState<File>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  const [made, setMade] = useState<Schemas['PolicyVersion']>();
  const submit = async (e: Event) => {
    e.preventDefault();
    if (!file || busy) return;
    setBusy(true);
    setError(undefined);
    try {
      const module = await file.arrayBuffer();
      const version = await take(api.POST('/api/v1/policies', {
        params: { query: { name } },
        body: module as never,
        bodySerializer: (body: unknown) => body as ArrayBuffer,
        headers: { 'Content-Type': 'application/wasm' },
      }));
      setMade(version);
      onDone();
    } catch (failure) {
      setError(failure as Failure);
    }
    setBusy(false);
  };
  return (
    <Dialog title={given ? `Upload a version of ${given}` : 'Upload a policy module'} onClose={onClose} wide>
      {made ? (
        <>
          <p>It is version {made.version} of <b><Hostile text={made.name} /></b>, and it is {made.state === 'live' ? 'live' : 'not live yet'}.</p>
          <Checks checks={made.checks} />
          <div class="actions">
            <a class="button" href={to.policyVersion(made.name, made.version)} onClick={onClose}>Look at it</a>
            <button type="button" class="primary" onClick={onClose}>Done</button>
          </div>
        </>
      ) : (
        <form onSubmit={submit}>
          {!given && (
            <label>
              The policy's name
              <input autoFocus required pattern="[^@]+" maxLength={128} value={name} onInput={(e) => setName(e.currentTarget.value)} autocomplete="off" spellcheck={false} />
            </label>
          )}
          <label>
            The module, a .wasm file with its manifest
            <input type="file" accept=".wasm,application/wasm" required onChange={(e) => setFile(e.currentTarget.files?.[0])} />
          </label>
          {error && <Trouble error={error} />}
          {error?.problem.check && <p>It failed the check <code>{error.problem.check}</code>{error.problem.limit !== undefined && <>: {count(error.problem.found ?? 0)} found, {count(error.problem.limit)} allowed</>}.</p>}
          <div class="actions">
            <button type="button" onClick={onClose}>Cancel</button>
            <button type="submit" class="primary" disabled={busy || !file}>{busy ? 'It is checked…' : 'Upload'}</button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

/** What was checked before a version was kept. */
export function Checks({ checks }: { checks: Schemas['PolicyVersion']['checks'] }) {
  return (
    <ul class="rules checks" aria-label="Checks">
      {checks.map((c) => (
        <li key={c.check} class={c.ok ? 'rule-ok' : 'rule-bad'}>
          <Chip tone={c.ok ? 'keep' : 'drop'}>{c.ok ? 'passed' : 'failed'}</Chip> <b>{c.check.replaceAll('_', ' ')}</b> <span class="muted"><Hostile text={c.detail} /></span>
        </li>
      ))}
    </ul>
  );
}
