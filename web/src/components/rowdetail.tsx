import { api, take, type Schemas } from '../api/client';
import { shown } from '../lib/blocks';
import { fates, stays } from '../lib/fates';
import { count, many } from '../lib/format';
import { type Considered, type Message, type Source, type XWindow } from '../lib/window';
import { useLoad } from '../state/load';
import { to } from '../state/query';
import { Body } from './atom';
import { Segmented, Trouble } from './basic';
import { Words } from './windowdiff';

type Enough = Schemas['Enough'];
type View = 'message' | 'change' | 'raw' | 'why';

/** The details of one row: who decided and why, the message before and after, and what it would take to keep it. */
export function RowDetail({ project, session, source, window: w, entry, stored, view, onView }: {
  project: string; session: string; source: Source; window: XWindow; entry: Considered; stored?: Message; view?: string; onView: (view: View | undefined) => void;
}) {
  const { row } = entry;
  const step = row.step === null ? undefined : w.pipeline[row.step];
  const short = ['truncate', 'stub', 'replace', 'compress', 'strip'].includes(row.action) && row.window_index !== null;
  const askable = !stays(row.action) && row.message_id !== null && row.reason_code !== 'beyond_horizon';
  const views: [View, string][] = [['message', 'Message']];
  if (short) views.push(['change', 'What was changed']);
  if (askable) views.push(['why', 'Why not?']);
  views.push(['raw', 'Raw']);
  const now = views.some(([v]) => v === view) ? (view as View) : 'message';
  return (
    <div class="row-detail">
      <p class="says">
        <b>{fates[row.action].says}</b> {capital(row.reason)}.{' '}
        {step ? (
          <>
            Step {row.step! + 1} of {w.pipeline.length}, <b>{step.policy}@{step.version}</b>, decided it.
          </>
        ) : (
          <>Mneme itself decided it.</>
        )}{' '}
        {row.tokens_before !== row.tokens_after ? `${count(row.tokens_before)} tokens became ${count(row.tokens_after)}.` : `${many(row.tokens_after, 'token')}.`}
        {!!row.tokens_to_keep && <> Keeping it whole{row.action !== 'keep' ? '' : ', with the messages that belong to it,'} would take {many(row.tokens_to_keep, 'more token')}.</>}
      </p>
      <div class="row-tools">
        <Segmented label="View" value={now} options={views} onChange={(v) => onView(v === 'message' ? undefined : v)} />
        {row.turn !== null && stored && <a href={`${to.session(project, session)}?t=${row.turn}`}>In the transcript</a>}
      </div>
      {now === 'message' && <Body shown={entry.shown} />}
      {now === 'raw' && <Body shown={entry.shown} raw={stored?.message ?? entry.row} />}
      {now === 'change' && (
        <Words
          before={entry.shown.blocks.map((b) => b.text).join('\n')}
          after={shown(w.messages[row.window_index!]).blocks.map((b) => b.text).join('\n')}
        />
      )}
      {now === 'why' && <WhyNot project={project} session={session} source={source} id={row.message_id!} />}
    </div>
  );
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, '');

/** What would keep a message in the window. The server finds out by making the window with other budgets. */
export function WhyNot({ project, session, source, id }: { project: string; session: string; source: Source; id: string }) {
  const found = useLoad(
    async (signal) =>
      source === 'live'
        ? undefined
        : take(api.POST('/api/v1/projects/{project}/decisions/{decision}/why-not', { params: { path: { project, decision: source.decision } }, body: { message_id: id }, signal })),
    [project, id, source === 'live' ? '' : source.decision],
  );
  if (source === 'live') return <p class="muted">This works only for stored decisions. The key [ opens the newest one.</p>;
  if (found.error) return <Trouble error={found.error} retry={found.reload} />;
  const w = found.data;
  const lab = to.lab(project, session, source.decision);
  const ways: [Enough, string, string][] = [];
  if (w?.max_tokens) ways.push([w.max_tokens, 'tokens', `${lab}&tok=${w.max_tokens.from}`]);
  if (w?.max_messages) ways.push([w.max_messages, 'messages', `${lab}&msg=${w.max_messages.from}`]);
  if (w?.session_history_depth) ways.push([w.session_history_depth, 'turns in full', lab]);
  return (
    <div class="whynot" aria-live="polite">
      {!w && <p class="muted">Trying other budgets…</p>}
      {w?.stays && <p>It is in the window.</p>}
      {ways.map(([enough, unit, href]) => (
        <p key={unit}>
          It stays from <b>{count(enough.from)} {unit}</b> on (now {count(enough.now)}); the window then takes {count(enough.tokens)} tokens. <a href={href}>Try it in the lab</a>
        </p>
      ))}
      {w && !w.stays && ways.length === 0 && w.only_tokens && (
        <p>
          No bound alone is enough. It stays from <b>{count(w.only_tokens.from)} tokens</b> on if nothing else bounds the window, at the greatest depth. <a href={lab}>Open the lab</a>
        </p>
      )}
      {w && !w.stays && ways.length === 0 && !w.only_tokens && (
        <p>
          <b>No budget keeps it.</b> A rule of the pipeline decided, not the budget. <a href={lab}>Change the pipeline in the lab</a>
        </p>
      )}
      {w && <p class="muted">{many(w.windows, 'window')} made to find out; none was stored.</p>}
    </div>
  );
}
