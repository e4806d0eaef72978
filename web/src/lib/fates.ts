import type { Schemas } from '../api/client';

export type Row = Schemas['ReportRow'];
export type Action = Row['action'];

/** The name of an outcome, and one of six tones. The tone is never the only sign: chips contain the name. */
export const fates: Record<Action, { word: string; tone: Tone; says: string }> = {
  keep: { word: 'kept', tone: 'keep', says: 'The message is in the window as it was stored.' },
  drop: { word: 'dropped', tone: 'drop', says: 'The message is not in the window.' },
  compress: { word: 'compressed', tone: 'short', says: 'Only the question of the turn is in the window, as an earlier question.' },
  truncate: { word: 'truncated', tone: 'short', says: 'The message was cut to its head and tail.' },
  stub: { word: 'stubbed', tone: 'short', says: 'The message is in the window, but a note replaces its content.' },
  replace: { word: 'replaced', tone: 'short', says: 'A policy replaced the text.' },
  summarise: { word: 'summarised', tone: 'summary', says: 'The running summary covers it.' },
  inject: { word: 'injected', tone: 'inject', says: 'Added to the window; not in the session: a memory, a summary or a note.' },
  strip: { word: 'stripped', tone: 'strip', says: 'Some parts of the message were removed, such as thinking or images.' },
};

export type Tone = 'keep' | 'drop' | 'short' | 'summary' | 'inject' | 'strip';

/** Whether the window contains the message's whole text. */
export const stays = (action: Action) => action === 'keep' || action === 'inject' || action === 'strip';

/** How many messages had each outcome, and their tokens before and after, without messages too old to be considered. */
export function tally(rows: Row[]) {
  const found = new Map<Action, { messages: number; before: number; after: number }>();
  for (const r of rows) {
    if (r.reason_code === 'beyond_horizon') continue;
    const t = found.get(r.action) ?? { messages: 0, before: 0, after: 0 };
    t.messages++;
    t.before += r.tokens_before;
    t.after += r.tokens_after;
    found.set(r.action, t);
  }
  return found;
}
