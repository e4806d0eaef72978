import { useState } from 'preact/hooks';
import { api, Failure, pages, take, type Schemas } from '../api/client';
import { Dialog, Head, Spark, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { brief, count, many, percent } from '../lib/format';
import { useLoad } from '../state/load';
import { loadProjects } from '../state/projects';
import { to } from '../state/query';
import { mayAdminister } from '../state/session';

/** All projects: how much each stores, how full its windows are, and whether anything fails. */
export default function Projects() {
  const list = useLoad(
    (signal) => pages<Schemas['Project']>(1000, (cursor) => take(api.GET('/api/v1/projects', { params: { query: { limit: 200, cursor } }, signal }))),
    [],
  );
  const [making, setMaking] = useState(false);
  return (
    <div class="screen">
      <Head title="Projects" note="Each project keeps its own sessions, memories and settings.">
        {mayAdminister.value && <button type="button" onClick={() => setMaking(true)}>New project</button>}
      </Head>
      {list.error && <Trouble error={list.error} retry={list.reload} />}
      {!list.data && list.loading && <Waiting />}
      {list.data && (
        <ul class="cards">
          {list.data.map((p) => (
            <li key={p.id}><Card project={p} /></li>
          ))}
        </ul>
      )}
      {making && <NewProject onClose={() => setMaking(false)} onMade={() => { list.reload(); void loadProjects(); }} />}
    </div>
  );
}

function Card({ project }: { project: Schemas['Project'] }) {
  const path = { project: project.id };
  const loaded = useLoad(
    async (signal) => {
      const [decisions, sessions] = await Promise.all([
        take(api.GET('/api/v1/projects/{project}/decisions', { params: { path, query: { limit: 200 } }, signal })),
        take(api.GET('/api/v1/projects/{project}/sessions', { params: { path, query: { limit: 200, sort: '-last_activity_at' } }, signal })),
      ]);
      return { decisions: decisions.data, more: decisions.has_more, sessions: sessions.data, moreSessions: sessions.has_more };
    },
    [project.id],
  );
  const d = loaded.data;
  const failed = d?.decisions.filter((x) => x.outcomes.some((o) => o.outcome !== 'ok')).length ?? 0;
  const kept = d?.decisions.reduce((n, x) => n + x.usage.tokens, 0) ?? 0;
  const left = d?.decisions.reduce((n, x) => n + x.left_out.tokens, 0) ?? 0;
  const prefixes = d?.decisions.flatMap((x) => (x.usage.prefix ? [x.usage.prefix.share] : [])) ?? [];
  return (
    <article class="card">
      <h2><a href={to.sessions(project.id)}><Hostile text={project.name || project.id} /></a></h2>
      {loaded.error && <p class="muted">{loaded.error.message}</p>}
      {!d && loaded.loading && <Waiting rows={2} />}
      {d && d.sessions.length === 0 && <FirstSteps project={project.id} />}
      {d && d.sessions.length > 0 && (
        <>
          <p class="muted">
            {d.moreSessions ? '200+ sessions' : many(d.sessions.length, 'session')}, last active <When at={d.sessions[0]?.last_activity_at} />
          </p>
          <Spark
            room={60}
            values={d.decisions.slice(0, 60).map((x) => x.usage.tokens).reverse()}
            marks={d.decisions.slice(0, 60).map((x) => x.cut).reverse()}
            label={`Tokens of the newest ${Math.min(60, d.decisions.length)} windows`}
          />
          <dl class="figures">
            <div><dt>Windows</dt><dd>{count(d.decisions.length)}{d.more && '+'}</dd></div>
            <div><dt>Tokens sent</dt><dd>{brief(kept)}</dd></div>
            <div><dt>Left out</dt><dd>{brief(left)}</dd></div>
            <div><dt>Prefix kept</dt><dd>{prefixes.length ? percent(prefixes.reduce((a, b) => a + b, 0) / prefixes.length) : '–'}</dd></div>
            <div class={failed ? 'bad' : ''}><dt>Failed steps</dt><dd>{count(failed)}</dd></div>
          </dl>
        </>
      )}
    </article>
  );
}

/** The first steps for a new user. */
export function FirstSteps({ project }: { project: string }) {
  return (
    <div class="first">
      <p>Nothing is stored here yet. Store a first turn and request a window:</p>
      <pre class="code" tabIndex={0}>{`curl -s ${location.origin}/api/v1/projects/${project}/turns \\
  -H "Authorization: Bearer $MNEME_KEY" -H 'Content-Type: application/json' \\
  -d '{"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi!"}]}'

curl -s ${location.origin}/api/v1/projects/${project}/context \\
  -H "Authorization: Bearer $MNEME_KEY" -H 'Content-Type: application/json' -d '{}'`}</pre>
      <p>Or fill a project with sample sessions: <code>mneme demo</code>.</p>
    </div>
  );
}

function NewProject({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const [id, setId] = useState('');
  const [error, setError] = useState<Failure>();
  const submit = async (e: Event) => {
    e.preventDefault();
    try {
      await take(api.PUT('/api/v1/projects/{project}', { params: { path: { project: id } }, body: {} }));
      onMade();
      onClose();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="New project" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          Its id, which stands in every address
          <input autoFocus required maxLength={128} value={id} onInput={(e) => setId(e.currentTarget.value)} autocomplete="off" spellcheck={false} />
        </label>
        {error && <Trouble error={error} />}
        <div class="actions">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="primary">Make it</button>
        </div>
      </form>
    </Dialog>
  );
}

