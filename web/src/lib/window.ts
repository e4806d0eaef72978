import { api, pages, take, Failure, type Schemas } from '../api/client';
import { shown, line, type Shown } from './blocks';
import type { Row } from './fates';

export type Message = Schemas['Message'];
export type Step = Schemas['PipelineStep'];
export type Format = Schemas['Window']['format'];
export type Decision = Schemas['Decision'];

/** Where a window comes from: a stored decision, or the session as it is now. */
export type Source = { decision: string } | 'live';

/** The changes to try. */
export interface Changes {
  budget?: { max_tokens?: number; max_messages?: number; context_window?: number; reserve_tokens?: number };
  pipeline?: Step[];
  format?: Format;
  settings?: Record<string, unknown>;
}

/** A window and its report, from whichever request. */
export interface XWindow {
  format: Format;
  messages: unknown[];
  system?: unknown;
  usage: Schemas['Usage'];
  cut: boolean;
  report: Row[];
  pipeline: Schemas['PipelineOutcome'][];
  thinking?: Schemas['ThinkingLeft'];
  summary?: Schemas['SummaryUsed'] | null;
  memories?: Schemas['RememberedMemories'];
  /** The stored decision, if there is one. */
  decision?: Decision;
  /** Whether recomputing gave the same bytes; undefined for a window that is not stored. */
  equal?: boolean;
  /** Why it cannot be recomputed. */
  lost?: string;
}

type Rendered = { format: Format; messages?: unknown[]; text?: string; system?: unknown };

/** The rendered messages; a text is shown as one message. */
const rendered = (w: Rendered) => w.messages ?? (w.text === undefined ? [] : [{ role: 'text', content: w.text }]);

export async function loadWindow(project: string, session: string, source: Source, signal?: AbortSignal): Promise<XWindow> {
  if (source === 'live') return changed(project, session, source, {}, signal);
  const path = { project, decision: source.decision };
  const [decision, replay] = await Promise.all([
    take(api.GET('/api/v1/projects/{project}/decisions/{decision}', { params: { path }, signal })),
    take(api.POST('/api/v1/projects/{project}/decisions/{decision}/replay', { params: { path }, signal })).catch((error: unknown) => {
      if (error instanceof Failure && error.status === 410) return error;
      throw error;
    }),
  ]);
  const window: Rendered = replay instanceof Failure ? { format: decision.format ?? 'openai.chat' } : replay.window;
  return {
    format: window.format,
    messages: rendered(window),
    system: window.system,
    usage: decision.usage,
    cut: decision.cut,
    report: decision.report ?? [],
    pipeline: decision.pipeline,
    thinking: decision.thinking,
    summary: decision.summary,
    memories: decision.memories,
    decision,
    equal: replay instanceof Failure ? undefined : replay.equal,
    lost: replay instanceof Failure ? replay.message : decision.purged,
  };
}

/** The window that other rules would make, without storing anything. */
export async function changed(project: string, session: string, source: Source, changes: Changes, signal?: AbortSignal): Promise<XWindow> {
  if (source === 'live') {
    const w = await take(
      api.POST('/api/v1/projects/{project}/context', {
        params: { path: { project } },
        body: { session_id: session, record: false, explain: true, budget: changes.budget, pipeline: changes.pipeline, format: changes.format },
        signal,
      }),
    );
    return { ...w, messages: rendered(w), report: w.report ?? [] };
  }
  const w = await take(
    api.POST('/api/v1/projects/{project}/decisions/{decision}/fork', {
      params: { path: { project, decision: source.decision } },
      body: { ...changes, settings: changes.settings as never, record: false },
      signal,
    }),
  );
  return { ...w, messages: rendered(w) };
}

const kept = new Map<string, Map<string, Message>>();

/** The stored messages that a report names. They are cached, because messages never change. */
export async function messagesOf(project: string, session: string, ids: string[], signal?: AbortSignal): Promise<Map<string, Message>> {
  const name = JSON.stringify([project, session]);
  const known = kept.get(name) ?? new Map<string, Message>();
  kept.set(name, known);
  const stored = ids.filter((id) => id.startsWith('msg_'));
  let missing = stored.some((id) => !known.has(id));
  if (missing) {
    await pages<Message>(20_000, async (cursor) => {
      const page = await take(
        api.GET('/api/v1/projects/{project}/sessions/{session}/messages', {
          params: { path: { project, session }, query: { order: 'desc', superseded: true, limit: 1000, cursor } },
          signal,
        }),
      );
      for (const m of page.data) known.set(m.id, m);
      missing = stored.some((id) => !known.has(id));
      return { ...page, has_more: page.has_more && missing };
    });
  }
  return known;
}

/** What a row of a report describes. */
export interface Considered {
  row: Row;
  shown: Shown;
  line: string;
}

/** Finds the message of each row: a stored one, a pending one, or one that was inserted into the window. */
export function considered(w: XWindow, stored: Map<string, Message>): Considered[] {
  const request = (w.decision?.request ?? {}) as { pending?: unknown[] };
  return w.report.map((row) => {
    let what: Shown = { role: '', blocks: [] };
    const id = row.message_id ?? '';
    const pending = /^pending:(\d+)$/.exec(id);
    const message = stored.get(id);
    if (pending) what = shown(request.pending?.[Number(pending[1])]);
    else if (message) {
      what = shown(message.message);
      if (what.blocks.length === 0) what = { role: message.role, blocks: message.content ? [{ kind: 'text', text: message.content }] : [] };
    } else if (row.reason_code === 'beyond_horizon') {
      what = { role: 'older', blocks: [{ kind: 'text', text: `${row.count} older messages, turns ${row.turns?.join(' to ')}` }] };
    } else if (id.startsWith('summary') && w.summary) what = { role: 'summary', blocks: [{ kind: 'text', text: w.summary.text }] };
    else if (row.window_index !== null && w.messages[row.window_index] !== undefined) what = shown(w.messages[row.window_index]);
    if (id.startsWith('memories')) what = { ...what, role: 'memories' };
    return { row, shown: what, line: line(what) };
  });
}

/**
 * Which rows each message of the window comes from. Formats join adjacent messages into one, and a message may be several
 * items in Responses: those after its first belong to it as well.
 */
export function sources(w: XWindow): number[][] {
  const owners: number[][] = w.messages.map(() => []);
  w.report.forEach((row, i) => {
    if (row.window_index !== null) owners[row.window_index]?.push(i);
  });
  if (w.format === 'openai.responses') {
    for (let i = 1; i < owners.length; i++) if (owners[i]!.length === 0 && i > 0) owners[i] = owners[i - 1]!;
  }
  return owners;
}

/** The limits of a stored decision. */
export function bounds(w: XWindow): { tokens: number; messages: number } {
  const asked = ((w.decision?.request ?? {}) as { budget?: { max_tokens?: number; max_messages?: number } | null }).budget ?? {};
  const s = w.decision?.settings;
  const p = w.usage.parts;
  const sum = Object.values(p).reduce((a, b) => a + b, 0);
  return {
    tokens: asked.max_tokens ?? s?.history_max_tokens ?? sum - p.system - p.tools,
    messages: asked.max_messages ?? s?.history_max_messages ?? 0,
  };
}
