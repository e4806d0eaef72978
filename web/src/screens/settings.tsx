import { useState } from 'preact/hooks';
import { api, Failure, pages, take, takeTagged, type Schemas } from '../api/client';
import { Head, Trouble, Waiting } from '../components/basic';
import { SettingsHistory, Values } from '../components/settingshistory';
import { PipelineEditor } from '../components/pipelineeditor';
import { Hostile } from '../components/text';
import type { Step } from '../lib/window';
import { useLoad } from '../state/load';
import { to } from '../state/query';
import { mayAdminister } from '../state/session';

type Settings = Schemas['Settings'];
type Field = { name: keyof Settings; label: string; says: string; kind: 'number' | 'optional' | 'policy' | 'truth' | 'text' | 'tools' | 'namespace' | string[] };

// The settings that people change. The others are in the full JSON below, so that nothing is hidden.
const groups: [string, Field[]][] = [
  ['Windows', [
    { name: 'history_max_tokens', label: 'Tokens', says: 'How many a window may have; 0: no bound.', kind: 'number' },
    { name: 'history_max_messages', label: 'Messages', says: 'How many a window may have; 0: no bound.', kind: 'number' },
    { name: 'session_history_depth', label: 'Turns in full', says: 'Older turns become earlier questions.', kind: 'number' },
    { name: 'session_history_depth_step', label: 'Step of the depth', says: 'By how many turns it moves at a time, which keeps prefixes.', kind: 'number' },
    { name: 'history_low_water', label: 'What a cut leaves', says: "A share of the budget, from 0.1 to 1: a deeper cut is less often needed. Empty: the policy's default.", kind: 'policy' },
    { name: 'history_ledger_tokens', label: 'Tokens that name what went', says: "Ids, codes, addresses and numbers of messages that were left out; 0: none are named. Empty: the policy's default.", kind: 'policy' },
    { name: 'oversized', label: 'A newest message that is too long', says: 'It is shortened, or the request is refused.', kind: ['shorten', 'refuse'] },
    { name: 'reasoning', label: 'Reasoning', says: 'Whose reasoning windows in openai.chat show, unless a request says so: none, that of pending messages, or all (content).', kind: ['none', 'pending', 'content'] },
    { name: 'tool_results', label: 'Tool results', says: 'As messages, or as markdown under "## Tool:", unless a request says so.', kind: ['messages', 'markdown'] },
    { name: 'tokenizer', label: 'Tokenizer', says: 'What tokens are counted with.', kind: ['o200k_base', 'cl100k_base'] },
  ]],
  ['Summaries', [
    { name: 'summary_enabled', label: 'Summaries', says: 'Whether older messages are summarised.', kind: 'truth' },
    { name: 'summary_threshold', label: 'Messages', says: 'How many may be uncovered before a summary is asked for.', kind: 'number' },
    { name: 'summary_threshold_tokens', label: 'Tokens', says: 'The same in tokens; 0: three fifths of the budget.', kind: 'number' },
    { name: 'summary_keep_last', label: 'Newest messages left out', says: 'A summary never covers these.', kind: 'number' },
    { name: 'summary_mode', label: 'Mode', says: 'Whether a window waits for its summary.', kind: ['background', 'wait'] },
    { name: 'summary_model', label: 'Model', says: "Empty: the operator's.", kind: 'text' },
  ]],
  ['Vectors', [
    { name: 'embedding_model', label: 'Model', says: 'Recall finds by meaning, too. Empty: by words alone.', kind: 'text' },
    { name: 'embedding_dimensions', label: 'Dimensions', says: "0: the model's own.", kind: 'number' },
    { name: 'embedding_timeout_ms', label: 'A query waits, in ms', says: 'Then it is answered by words alone.', kind: 'number' },
  ]],
  ['Retention', [
    { name: 'conversation_retention_days', label: 'Conversations, in days', says: 'Empty: they are kept for good.', kind: 'optional' },
    { name: 'decisions', label: 'Decisions', says: 'all: each window can be explained and made again. errors: only windows that were cut or shortened, that lost thinking, or in which a step failed. none: no window; this takes about a sixth less processor time for each. Windows without a decision also lose thinking that is bound to them.', kind: ['all', 'errors', 'none'] },
    { name: 'decision_retention_days', label: 'Decisions, in days', says: 'Then windows can no longer be explained.', kind: 'number' },
    { name: 'memory_namespace', label: 'Namespace of memories', says: 'Of sessions that name none: names, outermost first, with a slash between them. {session} and {agent} stand for their ids. Empty: all sessions share the memories.', kind: 'namespace' },
    { name: 'memory_min_trust', label: 'Least trust of memories', says: 'Windows and the tool memory_recall leave out what is less trusted: tool, model, user or operator. Where it is set, reminders say how far to trust each memory, and only what users and operators said is shown with the authority of a system prompt. Empty: all.', kind: 'text' },
    { name: 'daily_memory_days', label: 'Daily memories, in days', says: 'Unless they say themselves when they expire.', kind: 'number' },
  ]],
  ['Model calls through the proxy', [
    { name: 'proxy_tools', label: 'Memory tools', says: 'The proxy adds them to calls in mode assemble, and answers them itself.', kind: 'tools' },
  ]],
];

const memoryTools = ['memory_recall', 'memory_store', 'memory_forget'];

/** What someone else changed since the settings were loaded. */
const others = (before: Settings, after: Settings) =>
  (Object.keys({ ...before, ...after }) as (keyof Settings)[])
    .filter((name) => (name as string) !== 'calibration' && JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((setting) => ({ setting, before: before[setting], after: after[setting] }));

/**
 * A project's settings. Only changes are sent, with the ETag of the loaded settings. If someone else changed them in the
 * meantime, nothing is stored, and the page shows their changes next to the unsaved ones.
 */
export default function SettingsScreen({ p }: { p: string }) {
  const read = (signal?: AbortSignal) => takeTagged(api.GET('/api/v1/projects/{project}/settings', { params: { path: { project: p } }, signal }));
  const loaded = useLoad(read, [p]);
  const policies = useLoad((signal) => pages<Schemas['Policy']>(1000, (cursor) => take(api.GET('/api/v1/policies', { params: { query: { limit: 200, cursor } }, signal }))), []);
  // The latest settings, if they were loaded again after a change here or by someone else.
  const [newer, setNewer] = useState<{ of: string; data: Settings; tag?: string }>();
  const [changes, setChanges] = useState<Partial<Settings>>({});
  const [overtaken, setOvertaken] = useState<ReturnType<typeof others>>();
  const [error, setError] = useState<Failure>();
  const [saved, setSaved] = useState(0);
  const known = newer?.of === p ? newer : loaded.data;
  const base = known?.data;
  const set = <K extends keyof Settings>(name: K, value: Settings[K]) => {
    const next = { ...changes, [name]: value };
    if (JSON.stringify(value) === JSON.stringify(base?.[name])) delete next[name];
    setChanges(next);
  };
  const save = async (e: Event) => {
    e.preventDefault();
    setError(undefined);
    setOvertaken(undefined);
    try {
      const stored = await takeTagged(api.PATCH('/api/v1/projects/{project}/settings', { params: { path: { project: p }, header: { 'If-Match': known?.tag } }, body: changes as never }));
      setNewer({ of: p, ...stored });
      setChanges({});
      setSaved((n) => n + 1);
    } catch (failure) {
      if ((failure as Failure).problem.code !== 'settings_changed') return setError(failure as Failure);
      const found = await read().catch((again: Failure) => setError(again));
      if (!found) return;
      setOvertaken(others(base!, found.data));
      setNewer({ of: p, ...found });
    }
  };
  const now = base && { ...base, ...changes };
  const changed = Object.keys(changes).length;
  return (
    <div class="screen">
      <Head trail={[['Projects', to.projects()]]} title={<>Settings of <Hostile text={p} /></>} note={mayAdminister.value ? 'They hold from the next window on. Try them in the lab of a session first.' : 'Your key may look at them and not change them.'} />
      {loaded.error && <Trouble error={loaded.error} retry={loaded.reload} />}
      {!base && loaded.loading && <Waiting />}
      {now && (
        <form onSubmit={save} class="settings">
          <fieldset disabled={!mayAdminister.value}>
            {groups.map(([title, fields]) => (
              <section key={title} class="card">
                <h2>{title}</h2>
                {fields.map((f) => (
                  <div class="config-field" key={f.name}>
                    <label for={`set-${f.name}`}>{f.label} {f.name in changes && <b>changed</b>}</label>
                    <Value field={f} value={now[f.name]} onChange={(v) => set(f.name, v as never)} />
                    <p id={`set-${f.name}-says`} class="muted">{f.says}</p>
                  </div>
                ))}
              </section>
            ))}
            <section class="card">
              <h2>Pipeline</h2>
              <p class="muted">The policies that run, in this order.</p>
              <PipelineEditor steps={now.pipeline as Step[]} onChange={(steps) => set('pipeline', steps as never)} policies={policies.data ?? []} />
            </section>
          </fieldset>
          {overtaken && (
            <div class="trouble" role="alert">
              <strong>Nothing was saved: someone else changed the settings while this page was open</strong>
              <Values changes={overtaken} />
              <p>The page now shows their settings with your changes applied. Check them, and save again.</p>
            </div>
          )}
          {error && <Trouble error={error} />}
          {error?.problem.errors && <ul>{error.problem.errors.map((f, i) => <li key={i}><code>{f.field}</code> {f.detail}</li>)}</ul>}
          {mayAdminister.value && (
            <div class="actions">
              <span role="status" class="muted">{changed > 0 ? `${changed} changed` : saved > 0 ? 'Saved.' : ''}</span>
              <button type="button" disabled={changed === 0} onClick={() => { setChanges({}); setOvertaken(undefined); setError(undefined); }}>Discard</button>
              <button type="submit" class="primary" disabled={changed === 0}>Save</button>
            </div>
          )}
          <details><summary>All settings, as in the API</summary><pre class="raw" tabIndex={0}><Hostile text={JSON.stringify(now, null, 2)} /></pre></details>
        </form>
      )}
      {base && <SettingsHistory key={p} project={p} stored={saved} />}
    </div>
  );
}

function Value({ field: f, value, onChange }: { field: Field; value: unknown; onChange: (value: unknown) => void }) {
  const shared = { id: `set-${f.name}`, 'aria-describedby': `set-${f.name}-says` };
  if (Array.isArray(f.kind)) return <select {...shared} value={String(value)} onChange={(e) => onChange(e.currentTarget.value)}>{f.kind.map((o) => <option key={o}>{o}</option>)}</select>;
  if (f.kind === 'truth') return <input {...shared} type="checkbox" checked={!!value} onChange={(e) => onChange(e.currentTarget.checked)} />;
  if (f.kind === 'tools') {
    const has = value as string[];
    return <span {...shared} role="group" aria-label={f.label}>{memoryTools.map((tool) => <label key={tool}><input type="checkbox" checked={has.includes(tool)} onChange={(e) => onChange(e.currentTarget.checked ? [...has, tool] : has.filter((name) => name !== tool))} /> {tool}</label>)}</span>;
  }
  if (f.kind === 'namespace') return <input {...shared} value={(value as string[]).map((name) => name.replace(/[%/]/g, encodeURIComponent)).join('/')} onChange={(e) => onChange(e.currentTarget.value.split('/').filter(Boolean).map((name) => name.replace(/%25|%2F/gi, decodeURIComponent)))} />;
  if (f.kind === 'text') return <input {...shared} value={String(value ?? '')} onInput={(e) => onChange(e.currentTarget.value)} />;
  if (f.kind === 'policy') return <input {...shared} type="number" min={0} step="any" placeholder="the policy's" value={value === null || Number(value) < 0 ? '' : String(value)} onChange={(e) => onChange(e.currentTarget.value === '' ? -1 : Number(e.currentTarget.value))} />;
  return <input {...shared} type="number" min={0} value={value === null || value === undefined ? '' : String(value)} onChange={(e) => { const v = e.currentTarget.value; if (v !== '' || f.kind === 'optional') onChange(v === '' ? null : Number(v)); }} />;
}
