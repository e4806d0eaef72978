import { useLocation } from 'preact-iso';
import { useState } from 'preact/hooks';
import { api, Failure, take, type Schemas } from '../api/client';
import { Chip, ConfirmTyped, FateChip, Head, Segmented, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { brief, bytes, count, percent, signed } from '../lib/format';
import type { Action } from '../lib/fates';
import { useLoad } from '../state/load';
import { useProjects } from '../state/projects';
import { to, useQuery } from '../state/query';
import { mayAdminister } from '../state/session';
import { Checks, Upload } from './policies';

type View = 'checks' | 'tests' | 'run' | 'replay';

/** One policy: its versions, the live version, and what a version does on a case or on real sessions. */
export default function PolicyScreen({ policy: name, version }: { policy: string; version?: string }) {
  const { query, set } = useQuery();
  const { route } = useLocation();
  const [dialog, setDialog] = useState<'upload' | 'delete' | number>();
  const [trouble, setTrouble] = useState<Failure>();
  const loaded = useLoad((signal) => take(api.GET('/api/v1/policies/{policy}', { params: { path: { policy: name } }, signal })), [name]);
  const policy = loaded.data;
  const shown = version ? Number(version) : policy?.live;
  const view = (query.view as View) || 'checks';
  const one = useLoad(
    async (signal) => (shown ? take(api.GET('/api/v1/policies/{policy}/versions/{version}', { params: { path: { policy: name, version: shown } }, signal })) : undefined),
    [name, shown, policy],
  );
  const act = async (request: Promise<unknown>) => {
    setTrouble(undefined);
    try {
      await request;
      loaded.reload();
    } catch (failure) {
      setTrouble(failure as Failure);
    }
  };
  const live = (v: number) => act(take(api.PUT('/api/v1/policies/{policy}/live', { params: { path: { policy: name } }, body: { version: v } })));
  const own = mayAdminister.value && policy && !policy.built_in;
  return (
    <div class="screen">
      <Head trail={[['Policies', to.policies()]]} title={<Hostile text={name} />} note={one.data && <Hostile text={one.data.description} />}>
        {own && <button type="button" onClick={() => setDialog('delete')} class="danger-quiet">Delete</button>}
        {own && <button type="button" class="primary" onClick={() => setDialog('upload')}>Upload a version</button>}
      </Head>
      {(loaded.error ?? trouble ?? one.error) && <Trouble error={(loaded.error ?? trouble ?? one.error)!} retry={loaded.reload} />}
      {!policy && loaded.loading && <Waiting />}
      {policy && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Versions">
          <table class="list">
            <thead><tr><th scope="col">Version</th><th scope="col">State</th><th scope="col" class="number">Size</th><th scope="col">Uploaded</th><th scope="col">Digest</th>{own && <th scope="col">Actions</th>}</tr></thead>
            <tbody>
              {[...policy.versions].reverse().map((v) => (
                <tr key={v.version} class={v.version === shown ? 'current' : ''}>
                  <td class="nowrap"><a class="row-link" href={to.policyVersion(name, v.version)} aria-current={v.version === shown ? 'true' : undefined}>Version {v.version}</a></td>
                  <td>
                    {v.state === 'live' ? <Chip tone="keep">live</Chip> : v.state === 'set_back' ? <Chip tone="drop">set back</Chip> : <Chip>ready</Chip>}
                    {v.set_back && <p class="muted">after {count(v.set_back.failures)} × {v.set_back.outcome.replaceAll('_', ' ')}, <When at={v.set_back.at} />: <Hostile text={v.set_back.detail} /></p>}
                    {!v.set_back && v.failures > 0 && <p class="muted">{count(v.failures)} failures in a row</p>}
                  </td>
                  <td class="number nowrap">{bytes(v.size)}</td>
                  <td class="nowrap"><When at={v.created_at} /></td>
                  <td><code>{v.digest.slice(7, 19)}</code></td>
                  {own && (
                    <td class="nowrap">
                      {v.version !== policy.live && <button type="button" onClick={() => void live(v.version)}>{v.version < policy.live ? 'Roll back to it' : 'Make it live'}</button>}{' '}
                      {v.version !== policy.live && <button type="button" class="danger-quiet" onClick={() => setDialog(v.version)}>Delete<span class="sr"> version {v.version}</span></button>}
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {policy && one.data && shown && (
        <section class="screen-part" aria-label={`Version ${shown}`}>
          <div class="filters">
            <h2>Version {shown}</h2>
            <Segmented<View> label="What is shown" value={view} onChange={(v) => set({ view: v })} options={[['checks', 'Checks'], ['tests', `Tests (${one.data.tests?.length ?? 0})`], ...(mayAdminister.value ? ([['run', 'Run'], ['replay', 'Replay']] as [View, string][]) : [])]} />
          </div>
          {view === 'checks' && <About version={one.data} />}
          {view === 'tests' && <Tests tests={one.data.tests ?? []} />}
          {view === 'run' && mayAdminister.value && <Run name={name} version={shown} tests={one.data.tests ?? []} />}
          {view === 'replay' && mayAdminister.value && <Replay name={name} version={shown} live={policy.live} />}
        </section>
      )}
      {dialog === 'upload' && <Upload name={name} onClose={() => setDialog(undefined)} onDone={loaded.reload} />}
      {typeof dialog === 'number' && (
        <ConfirmTyped
          title={`Delete version ${dialog}`}
          name={`${name}@${dialog}`}
          action="Delete it"
          onClose={() => setDialog(undefined)}
          onConfirm={async () => {
            await take(api.DELETE('/api/v1/policies/{policy}/versions/{version}', { params: { path: { policy: name, version: dialog } } }));
            if (shown === dialog) route(to.policy(name));
            loaded.reload();
          }}
        >
          <p>It is deleted permanently, and decisions that used it can no longer be recomputed.</p>
        </ConfirmTyped>
      )}
      {dialog === 'delete' && (
        <ConfirmTyped title="Delete the policy" name={name} action="Delete it" onClose={() => setDialog(undefined)} onConfirm={async () => { await take(api.DELETE('/api/v1/policies/{policy}', { params: { path: { policy: name } } })); route(to.policies()); }}>
          <p>All its versions are deleted, and decisions that used it can no longer be recomputed.</p>
        </ConfirmTyped>
      )}
    </div>
  );
}

function About({ version: v }: { version: Schemas['PolicyVersion'] }) {
  const config = Object.entries(v.config as Record<string, { type?: string; default?: unknown; description?: string }>);
  return (
    <>
      <Checks checks={v.checks} />
      {config.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Config">
          <table class="list">
            <thead><tr><th scope="col">Config</th><th scope="col">Type</th><th scope="col">Default</th><th scope="col">Says</th></tr></thead>
            <tbody>{config.map(([key, p]) => <tr key={key}><td><code><Hostile text={key} /></code></td><td>{String(p.type ?? '')}</td><td><code>{JSON.stringify(p.default)}</code></td><td><Hostile text={String(p.description ?? '')} /></td></tr>)}</tbody>
          </table>
        </div>
      )}
      {v.manifest && <details><summary>Manifest</summary><pre class="raw" tabIndex={0}><Hostile text={JSON.stringify(v.manifest, null, 2)} /></pre></details>}
    </>
  );
}

function Tests({ tests }: { tests: Record<string, unknown>[] }) {
  if (tests.length === 0) return <p class="nothing">The module has no tests of its own.</p>;
  return (
    <ol class="timeline" aria-label="Tests">
      {tests.map((t, i) => (
        <li key={i}>
          <div class="item-head"><b><Hostile text={String(t.name ?? `Test ${i + 1}`)} /></b> <span class="muted"><Hostile text={((t.expect as string[]) ?? []).join(', ')} /></span></div>
          <details><summary>Its case</summary><pre class="raw" tabIndex={0}><Hostile text={JSON.stringify(t, null, 2)} /></pre></details>
        </li>
      ))}
    </ol>
  );
}

const example = { messages: [{ role: 'user', content: 'Hello', tags: ['status'] }, { role: 'user', content: 'Hello again', tags: ['status'] }, { role: 'user', content: 'What now?' }], config: {} };

/** Runs the version on a case: pasted, or from one of its tests or from a decision. */
function Run({ name, version, tests }: { name: string; version: number; tests: Record<string, unknown>[] }) {
  const { project } = useProjects();
  const [text, setText] = useState(JSON.stringify(example, null, 2));
  const [decision, setDecision] = useState('');
  const [ran, setRan] = useState<Schemas['PolicyRun']>();
  const [error, setError] = useState<Failure>();
  const run = async (e: Event) => {
    e.preventDefault();
    setError(undefined);
    setRan(undefined);
    try {
      const body = decision ? { project, decision_id: decision } : JSON.parse(text);
      setRan(await take(api.POST('/api/v1/policies/{policy}/versions/{version}/run', { params: { path: { policy: name, version } }, body })));
    } catch (failure) {
      setError(failure instanceof Failure ? failure : new Failure(0, { title: 'The case is not JSON', detail: String(failure) }));
    }
  };
  const use = (i: number) => {
    const { name: _, expect: __, inserted: ___, outcome: ____, ...rest } = tests[i]!;
    setText(JSON.stringify(rest, null, 2));
    setDecision('');
  };
  return (
    <form onSubmit={run} class="run">
      <div class="filters">
        <input aria-label="Decision" placeholder={`A decision of ${project}: dec_…`} value={decision} onInput={(e) => setDecision(e.currentTarget.value.trim())} />
        {tests.length > 0 && (
          <label><span class="sr">Case</span>
            <select value="" onChange={(e) => e.currentTarget.value !== '' && use(Number(e.currentTarget.value))}>
              <option value="">From a test…</option>
              {tests.map((t, i) => <option key={i} value={i}>{String(t.name ?? i + 1)}</option>)}
            </select>
          </label>
        )}
        <button type="submit" class="primary">Run</button>
      </div>
      {!decision && <label>The case, as JSON<textarea rows={12} spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>}
      {error && <Trouble error={error} />}
      {ran && (
        <>
          <p role="status">
            <Chip tone={ran.outcome === 'ok' ? 'keep' : 'drop'}>{ran.outcome.replaceAll('_', ' ')}</Chip> {ran.violation ? <Chip tone="drop">breaks the law: {ran.violation.rule}</Chip> : <Chip tone="keep">{ran.hook ? 'lawful plan' : 'lawful window'}</Chip>} {count(ran.fuel)} fuel{ran.usage && `, ${count(ran.usage.tokens)} tokens`}
          </p>
          {ran.report && (
            <div class="table-box" tabIndex={0} role="region" aria-label="What happened to each message">
              <table class="list">
                <thead><tr><th scope="col">Message</th><th scope="col">Fate</th><th scope="col">By</th><th scope="col">Why</th><th scope="col" class="number">Tokens</th></tr></thead>
                <tbody>{ran.report.map((r, i) => <tr key={i}><td><code><Hostile text={r.message_id ?? "–"} /></code></td><td><FateChip action={r.action as Action} /></td><td><Hostile text={r.policy} /></td><td><Hostile text={r.reason || r.reason_code} /></td><td class="number">{count(r.tokens_before)} → {count(r.tokens_after)}</td></tr>)}</tbody>
              </table>
            </div>
          )}
          {ran.ops && <ol aria-label="What the plan does">{ran.ops.map((op, i) => <li key={i}><Hostile text={JSON.stringify(op)} /></li>)}</ol>}
        </>
      )}
    </form>
  );
}

/** What the version would change for the project's real sessions, compared with another version. Nothing is stored. */
function Replay({ name, version, live }: { name: string; version: number; live: number }) {
  const { project } = useProjects();
  const [against, setAgainst] = useState<string>(live === version ? 'none' : 'live');
  const [found, setFound] = useState<Schemas['PolicyReplay']>();
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const run = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      setFound(await take(api.POST('/api/v1/policies/{policy}/versions/{version}/replay', { params: { path: { policy: name, version } }, body: { project_id: project, against } })));
    } catch (failure) {
      setError(failure as Failure);
    }
    setBusy(false);
  };
  const delta = (c: Schemas['Compared']) => `${brief(c.before)} → ${brief(c.after)}${c.before && c.after !== c.before ? ` (${percent(Math.abs(c.after - c.before) / c.before)} ${c.after > c.before ? 'more' : 'less'})` : ''}`;
  return (
    <form onSubmit={run} class="run">
      <div class="filters">
        <span>Sessions of <b><Hostile text={project} /></b>, against</span>
        <label><span class="sr">Against</span>
          <select value={against} onChange={(e) => setAgainst(e.currentTarget.value)}>
            <option value="live">the live version</option>
            <option value="none">no such policy</option>
            {Array.from({ length: Math.max(live, version) }, (_, i) => i + 1).filter((v) => v !== version).map((v) => <option key={v} value={v}>version {v}</option>)}
          </select>
        </label>
        <button type="submit" class="primary" disabled={busy}>{busy ? 'Replaying…' : 'Replay'}</button>
      </div>
      {error && <Trouble error={error} />}
      {found && (
        <>
          <dl class="figures">
            <div><dt>Sessions</dt><dd>{count(found.sessions.length)}</dd></div>
            <div><dt>Messages that are treated differently</dt><dd>{count(found.totals.changed_messages)}</dd></div>
            <div><dt>Tokens</dt><dd>{delta(found.totals.tokens)}</dd></div>
            <div><dt>Fuel</dt><dd>{delta(found.totals.fuel)}</dd></div>
            <div class={found.totals.failures.after ? 'bad' : ''}><dt>Failures</dt><dd>{delta(found.totals.failures)}</dd></div>
            <div><dt>Prefix kept</dt><dd>{percent(found.totals.prefix.before)} → {percent(found.totals.prefix.after)}</dd></div>
          </dl>
          <div class="table-box" tabIndex={0} role="region" aria-label="Sessions">
            <table class="list">
              <thead><tr><th scope="col">Session</th><th scope="col" class="number">Turns</th><th scope="col" class="number">Tokens</th><th scope="col" class="number">Changed</th><th scope="col">First changes</th></tr></thead>
              <tbody>
                {found.sessions.map((s) => (
                  <tr key={s.session_id}>
                    <td><a href={to.session(project, s.session_id)}><Hostile text={s.session_id} /></a>{s.error && <p class="muted"><Hostile text={s.error} /></p>}</td>
                    <td class="number">{count(s.turns)}</td>
                    <td class="number nowrap">{signed(s.tokens.after - s.tokens.before)}</td>
                    <td class="number">{count(s.changed_messages)}</td>
                    <td>{s.changed.slice(0, 3).map((c) => <p key={c.message_id} class="nowrap">turn {c.turn}: {c.before ? <FateChip action={c.before.action as Action} /> : 'absent'} → {c.after ? <FateChip action={c.after.action as Action} /> : 'absent'}</p>)}{s.changed_messages > 3 && <p class="muted">and {count(s.changed_messages - 3)} more</p>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </form>
  );
}
