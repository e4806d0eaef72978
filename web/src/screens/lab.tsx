import { useLocation } from 'preact-iso';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { api, Failure, pages, take, type Schemas } from '../api/client';
import { BudgetBar, total } from '../components/budgetbar';
import { Copy, Dialog, Head, Trouble, Waiting } from '../components/basic';
import { Pipeline } from '../components/pipeline';
import { PipelineEditor } from '../components/pipelineeditor';
import { Hostile } from '../components/text';
import { WindowDiff } from '../components/windowdiff';
import { commonPrefix } from '../lib/diff';
import { brief, count, many, percent, signed } from '../lib/format';
import { forSettings } from '../lib/pipeline';
import { bounds, changed, considered, messagesOf, type Changes, type Format, type Step } from '../lib/window';
import { useCommands } from '../state/keys';
import { useLoad } from '../state/load';
import { to, useQuery } from '../state/query';
import { mayAdminister } from '../state/session';
import { stored } from '../state/stored';
import { loadXRay, sourceOf } from './xray';

/** The price of a million tokens, to show costs. It is stored only in this browser. */
const price = stored<string>('price', '');

const formats: Format[] = ['openai.chat', 'anthropic.messages', 'openai.responses', 'text'];

/** The lab: the same session under other rules, A as it was and B as it would be. Nothing is stored. */
export default function Lab({ p, s }: { p: string; s: string }) {
  const { query, set } = useQuery();
  const { route } = useLocation();
  const d = query.d ?? 'live';
  const source = sourceOf(d);
  const a = useLoad((signal) => loadXRay(p, s, source, signal), [p, s, d]);
  const settings = useLoad((signal) => take(api.GET('/api/v1/projects/{project}/settings', { params: { path: { project: p } }, signal })), [p]);
  const policies = useLoad((signal) => pages<Schemas['Policy']>(1000, (cursor) => take(api.GET('/api/v1/policies', { params: { query: { limit: 200, cursor } }, signal }))), []);

  const base = a.data?.window.decision?.settings ?? settings.data;
  const bound = a.data ? (d === 'live' && settings.data ? { tokens: settings.data.history_max_tokens, messages: settings.data.history_max_messages } : bounds(a.data.window)) : { tokens: 0, messages: 0 };
  const basePipeline = useMemo<Step[]>(() => requested(a.data?.window.decision?.request) ?? ((base?.pipeline ?? []) as Step[]), [base, a.data]);
  const steps = useMemo<Step[]>(() => parsePipeline(query.pl) ?? basePipeline, [query.pl, basePipeline]);
  const changes = useMemo<Changes>(() => {
    const c: Changes = {};
    if (query.tok !== undefined || query.msg !== undefined) {
      c.budget = { ...(query.tok !== undefined ? { max_tokens: Number(query.tok) } : {}), ...(query.msg !== undefined ? { max_messages: Number(query.msg) } : {}) };
    }
    if (query.pl !== undefined) c.pipeline = steps;
    if (query.fmt) c.format = query.fmt as Format;
    return c;
  }, [query.tok, query.msg, query.pl, query.fmt]);
  const asked = JSON.stringify(changes);
  const quiet = useQuiet(asked, 60);
  const b = useLoad(
    async (signal) => {
      const window = await changed(p, s, source, JSON.parse(quiet) as Changes, signal);
      if (a.data?.window.decision && !window.decision) window.decision = { ...a.data.window.decision };
      const messages = await messagesOf(p, s, window.report.flatMap((r) => (r.message_id ? [r.message_id] : [])), signal);
      return { window, rows: considered(window, messages) };
    },
    [p, s, d, quiet],
  );
  const patch: Schemas['SettingsPatch'] = {
    ...(changes.budget?.max_tokens !== undefined ? { history_max_tokens: changes.budget.max_tokens } : {}),
    ...(changes.budget?.max_messages !== undefined ? { history_max_messages: changes.budget.max_messages } : {}),
    ...(changes.pipeline ? { pipeline: forSettings(steps, basePipeline, (settings.data?.pipeline ?? []) as Step[], policies.data ?? []) } : {}),
  };
  const put = (next: Step[]) => set({ pl: JSON.stringify(next) });
  const named = (name: string) => steps.findIndex((x) => x.policy.split('@')[0] === name);
  const depthStep = named('depth-compress') >= 0 ? named('depth-compress') : named('tool-pair-trim');
  const depth = Number((steps[depthStep]?.config as { depth?: number } | undefined)?.depth ?? base?.session_history_depth ?? 20);
  const setDepth = (n: number) => put(steps.map((x, i) => (i === depthStep ? { ...x, config: { ...(x.config as object), depth: n, depth_step: 1 } as never } : x)));
  const tokens = Number(query.tok ?? bound.tokens);
  const messages = Number(query.msg ?? bound.messages);
  const all = a.data?.window.usage.considered_tokens ?? 0;
  const mostTokens = Math.max(2000, Math.ceil((Math.max(bound.tokens * 3, Math.min(all * 1.2, bound.tokens * 12)) || 8000) / 1000) * 1000);
  const mostMessages = Math.max(100, bound.messages * 4);
  const reset = () => set({ tok: undefined, msg: undefined, pl: undefined, fmt: undefined });
  const [dialog, setDialog] = useState<'save' | 'test'>();

  useCommands([
    { keys: 'x', label: 'Back to the X-ray', group: 'Lab', run: () => route(to.xray(p, s, d)) },
    { keys: '0', label: 'Reset B to what A was', group: 'Lab', run: reset },
  ]);
  useEffect(() => {
    document.title = `Lab · ${s} · Mneme`;
  }, [s]);

  const wa = a.data?.window;
  const wb = b.data?.window;
  const more = wa && wb ? wb.usage.tokens - wa.usage.tokens : 0;
  const most = wa && wb ? Math.max(total(wa.usage), total(wb.usage)) : undefined;
  const shared = wa && wb ? commonPrefix(wa.messages, wb.messages) : 0;
  const cost = Number(price.value) > 0 ? (more * Number(price.value)) / 1e6 : undefined;
  return (
    <div class="screen lab">
      <Head trail={[[p, to.sessions(p)], [s, to.session(p, s)], [d === 'live' ? 'now' : `${d.slice(0, 12)}…`, to.xray(p, s, d)]]} title="What if?" note="Change the budget or a policy, and see the window that the same session would get. Nothing is stored.">
        <button type="button" onClick={reset} disabled={Object.keys(changes).length === 0}>Reset</button>
        {d !== 'live' && <button type="button" onClick={() => setDialog('test')}>Test from this</button>}
        {mayAdminister.value && <button type="button" class="primary" disabled={Object.keys(changes).length === 0} onClick={() => setDialog('save')}>Save as settings…</button>}
      </Head>
      {a.error && <Trouble error={a.error} retry={a.reload} />}
      {!wa && a.loading && <Waiting rows={8} />}
      {wa && (
        <div class="bench">
          <form class="controls" onSubmit={(e) => e.preventDefault()} aria-label="Rules of B">
            <Slider label="Token budget" value={tokens} min={200} max={mostTokens} step={100} was={bound.tokens} onChange={(n) => set({ tok: n === bound.tokens ? undefined : n })} />
            <Slider label="Messages" value={messages} min={0} max={mostMessages} step={1} was={bound.messages} zero="no bound" onChange={(n) => set({ msg: n === bound.messages ? undefined : n })} />
            {depthStep >= 0 && <Slider label="Turns in full" value={depth} min={1} max={100} step={1} was={Number((basePipeline[depthStep]?.config as { depth?: number } | undefined)?.depth ?? base?.session_history_depth ?? 20)} onChange={setDepth} />}
            <label>
              Format
              <select value={query.fmt ?? wa.format} onChange={(e) => set({ fmt: e.currentTarget.value === wa.format ? undefined : e.currentTarget.value })}>
                {formats.map((f) => <option key={f} value={f}>{f}</option>)}
              </select>
            </label>
            <div class="field">
              <span class="label">Pipeline</span>
              <PipelineEditor steps={steps} onChange={put} policies={policies.data ?? []} />
            </div>
            <label>
              Price of a million tokens
              <input type="number" min="0" step="0.01" placeholder="not set" value={price.value} onInput={(e) => (price.value = e.currentTarget.value)} />
            </label>
          </form>
          <div class="results-of">
            <div class="overview">
              <div class="ab"><b aria-label="A, as it was">A</b><BudgetBar usage={wa.usage} of={most} /></div>
              {wb && <div class="ab"><b aria-label="B, as it would be">B</b><BudgetBar usage={wb.usage} of={most} /></div>}
              {wb && (
                <p class="deltas" aria-live="polite">
                  <span><b>{signed(more)}</b> tokens</span>
                  <span><b>{signed(wb.usage.messages - wa.usage.messages)}</b> messages</span>
                  {cost !== undefined && <span><b>{cost >= 0 ? '+' : '−'}{Math.abs(cost).toFixed(4)}</b> a call</span>}
                  <span title="The part of B that a provider can read from its cache after A.">
                    begins with <b>{count(shared)}</b> of A's {many(wa.messages.length, 'message')}{shared < wa.messages.length && shared < wb.messages.length ? ', then differs: the cached prefix ends there' : ''}
                  </span>
                </p>
              )}
            </div>
            {b.error && <Trouble error={b.error} />}
            {wb && <Pipeline window={wb} />}
            {wb && b.data && <WindowDiff a={wa} b={wb} rowsOfA={a.data!.rows} rowsOfB={b.data.rows} />}
            <Over project={p} session={s} patch={patch} />
          </div>
        </div>
      )}
      {dialog === 'save' && settings.data && <Save project={p} now={settings.data} patch={patch} format={!!changes.format} onClose={() => setDialog(undefined)} onSaved={settings.reload} />}
      {dialog === 'test' && wa && <Case project={p} decision={d} steps={wa.pipeline} onClose={() => setDialog(undefined)} />}
    </div>
  );
}

const requested = (request: unknown): Step[] | undefined => (request as { pipeline?: Step[] } | undefined)?.pipeline ?? undefined;

function parsePipeline(text: string | undefined): Step[] | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? (value as Step[]) : undefined;
  } catch {
    return undefined;
  }
}

/** Debounces a value, so that moving a slider does not send a request for each pixel. */
function useQuiet<T>(value: T, ms: number): T {
  const [quiet, setQuiet] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setQuiet(value), ms);
    return () => clearTimeout(timer);
  }, [value]);
  return quiet;
}

function Slider({ label, value, min, max, step, was, zero, onChange }: { label: string; value: number; min: number; max: number; step: number; was: number; zero?: string; onChange: (n: number) => void }) {
  const id = `slider-${label.replaceAll(' ', '-')}`;
  return (
    <div class="slider">
      <label for={id}>{label}</label>
      <output for={id}>{value === 0 && zero ? zero : count(value)} {value !== was && <span class="muted">was {was === 0 && zero ? zero : count(was)}</span>}</output>
      <input id={id} type="range" min={min} max={max} step={step} value={value} onInput={(e) => onChange(Number(e.currentTarget.value))} aria-valuetext={value === 0 && zero ? zero : count(value)} />
    </div>
  );
}

/** The share of needed facts that one side's windows hold; unknown where no message needed any. */
function heldOf(facts: Schemas['FactsKept'], side: 'before' | 'after'): string {
  return facts.needed ? percent(facts[side] / facts.needed) : 'unknown';
}

/** By how much B changes the cost of the calls; unknown where there were none. */
function costChange(cost: Schemas['CallCost']): string {
  return cost.before ? `${signed(Math.round(((cost.after - cost.before) / cost.before) * 100))}%` : 'unknown';
}

/** What B's rules would change for real sessions, compared with the project's settings. */
function Over({ project, session, patch }: { project: string; session: string; patch: Schemas['SettingsPatch'] }) {
  const [found, setFound] = useState<Schemas['SettingsReplay']>();
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const run = async (sessions: string[] | undefined) => {
    setBusy(true);
    setError(undefined);
    try {
      setFound(await take(api.POST('/api/v1/projects/{project}/replay', { params: { path: { project } }, body: { settings: patch as never, sessions, newest: sessions ? undefined : 20 } })));
    } catch (failure) {
      setError(failure as Failure);
    }
    setBusy(false);
  };
  const rows = found?.sessions ?? [];
  const t = found?.totals;
  const fuel = rows.map((r) => r.fuel.after).sort((x, y) => x - y);
  const share = (n: number) => percent(n);
  return (
    <section class="over" aria-label="B over sessions">
      <header>
        <h2>Run B over</h2>
        <button type="button" disabled={busy} onClick={() => void run([session])}>This session, now</button>
        <button type="button" disabled={busy} onClick={() => void run(undefined)}>20 newest sessions</button>
        {t && (
          <p aria-live="polite">
            {many(rows.length, 'session')}: tokens <b>{t.tokens.before ? `${signed(Math.round(((t.tokens.after - t.tokens.before) / t.tokens.before) * 100))}%` : '–'}</b>,{' '}
            {many(rows.filter((r) => r.changed_messages).length, 'window')} changed, {many(t.failures.after, 'failure')}, prefix kept {share(t.prefix.before)} → {share(t.prefix.after)},{' '}
            <span title="Ids, codes and numbers that the agent's messages of the last 8 turns copied from before their turn, and that its window holds">needed facts held {heldOf(t.facts, 'before')} → {heldOf(t.facts, 'after')}</span>,{' '}
            <span title="What the model calls of these turns would cost with Anthropic's prompt cache, in tokens at the price of uncached input">cost {costChange(t.cost)}</span>, fuel p95{' '}
            {brief(fuel[Math.min(fuel.length - 1, Math.floor(fuel.length * 0.95))] ?? 0)}
          </p>
        )}
      </header>
      {error && <Trouble error={error} />}
      {found && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Sessions under B">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">Session</th><th scope="col" class="number">Tokens now</th><th scope="col" class="number">With B</th><th scope="col" class="number">Messages that differ</th>
                <th scope="col" class="number">Prefix kept</th><th scope="col" class="number">Needed facts held</th><th scope="col" class="number">Cost of {many(t?.cost.calls ?? 0, 'call')}</th><th scope="col">Failed</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((r) => (
                <tr key={r.session_id}>
                  <th scope="row"><a href={to.lab(project, r.session_id)}><Hostile text={r.session_id} /></a></th>
                  <td class="number">{count(r.tokens.before)}</td>
                  <td class="number">{count(r.tokens.after)} <span class="muted">{signed(r.tokens.after - r.tokens.before)}</span></td>
                  <td class="number">{count(r.changed_messages)}</td>
                  <td class="number">{r.prefix.windows ? `${share(r.prefix.before)} → ${share(r.prefix.after)}` : '–'}</td>
                  <td class="number">{r.facts.needed ? `${count(r.facts.before)} → ${count(r.facts.after)} of ${count(r.facts.needed)}` : '–'}</td>
                  <td class="number">{r.cost.calls ? `${brief(r.cost.before)} → ${brief(r.cost.after)}` : '–'}</td>
                  <td>{r.error ? <Hostile text={r.error} /> : r.failed.after.map((f) => `${f.policy}: ${f.outcome}`).join(', ')}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Stores B's rules as the project's settings. */
function Save({ project, now, patch, format, onClose, onSaved }: { project: string; now: Schemas['Settings']; patch: Schemas['SettingsPatch']; format: boolean; onClose: () => void; onSaved: () => void }) {
  const [error, setError] = useState<Failure>();
  const save = async () => {
    try {
      await take(api.PATCH('/api/v1/projects/{project}/settings', { params: { path: { project } }, body: patch }));
      onSaved();
      onClose();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="Save as settings" onClose={onClose} wide>
      <p>From the next window on, all sessions of <b><Hostile text={project} /></b> follow these rules. Nothing that is stored changes.</p>
      <div class="table-box">
        <table class="list">
          <thead><tr><th scope="col">Setting</th><th scope="col">Now</th><th scope="col">Then</th></tr></thead>
          <tbody>
            {Object.entries(patch).map(([name, value]) => (
              <tr key={name}><th scope="row"><code>{name}</code></th><td><pre><Hostile text={JSON.stringify(now[name as keyof typeof now], null, 1)} /></pre></td><td><pre><Hostile text={JSON.stringify(value, null, 1)} /></pre></td></tr>
            ))}
          </tbody>
        </table>
      </div>
      {format && <p class="muted">The format is chosen by each request, so it is not saved.</p>}
      {error && <Trouble error={error} />}
      <div class="actions">
        <button type="button" onClick={onClose}>Cancel</button>
        <button type="button" class="primary" disabled={Object.keys(patch).length === 0} onClick={() => void save()}>Save</button>
      </div>
    </Dialog>
  );
}

/** What one step saw in this decision, as a self-test for a policy's manifest. */
function Case({ project, decision, steps, onClose }: { project: string; decision: string; steps: Schemas['PipelineOutcome'][]; onClose: () => void }) {
  const [step, setStep] = useState(Math.max(0, steps.length - 1));
  const found = useLoad((signal) => take(api.GET('/api/v1/projects/{project}/decisions/{decision}/case', { params: { path: { project, decision }, query: { step } }, signal })), [step]);
  const text = found.data ? JSON.stringify(found.data.test, null, 2) : '';
  return (
    <Dialog title="A self-test from this decision" onClose={onClose} wide>
      <div class="row-tools">
        <label>
          <span class="sr">Step</span>
          <select value={step} onChange={(e) => setStep(Number(e.currentTarget.value))}>
            {steps.map((x, i) => <option key={i} value={i}>Step {i + 1}: {x.policy}@{x.version}</option>)}
          </select>
        </label>
        {found.data && <span class={found.data.passes ? 'rule-ok' : 'rule-bad'}>{found.data.passes ? '✓ passes today' : `✗ ${found.data.differs ?? 'does not pass'}`}</span>}
        <Copy text={() => text}>Copy</Copy>
      </div>
      {found.error && <Trouble error={found.error} />}
      <pre class="code" tabIndex={0}><Hostile text={text} /></pre>
    </Dialog>
  );
}
