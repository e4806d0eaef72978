import { shown, type Block } from './blocks';

/** A rule that a provider enforces, and whether a window follows it. The console checks what would be sent. */
export interface Rule {
  name: string;
  state: 'ok' | 'note' | 'bad';
  says: string;
}

type Format = 'openai.chat' | 'anthropic.messages' | 'openai.responses' | 'text';

const calls = (blocks: Block[]) => blocks.filter((b) => b.kind === 'call');
const results = (blocks: Block[]) => blocks.filter((b) => b.kind === 'result');

/** Whether each tool call is followed by its results, as the format requires. */
export function pairs(format: Format, messages: unknown[]): Rule {
  const bad = format === 'openai.responses' ? looseItems(messages) : looseMessages(format, messages);
  const name = 'tool pairs';
  if (bad.length > 0) return { name, state: 'bad', says: bad[0]! };
  const all = messages.flatMap((m) => results(shown(m).blocks)).length;
  return { name, state: 'ok', says: all ? `Each of ${all} tool results follows its call.` : 'There are no tool results.' };
}

function looseItems(items: unknown[]): string[] {
  const open = new Set<string>();
  const bad: string[] = [];
  items.forEach((item, i) => {
    const { blocks } = shown(item);
    for (const c of calls(blocks)) if (c.id) open.add(c.id);
    for (const r of results(blocks)) {
      if (r.id && !open.delete(r.id)) bad.push(`Item ${i} is the result of no call before it.`);
    }
  });
  if (open.size > 0) bad.push(`The call ${[...open][0]} has no result.`);
  return bad;
}

function looseMessages(format: Format, messages: unknown[]): string[] {
  const bad: string[] = [];
  let open = new Set<string>();
  messages.forEach((m, i) => {
    const { role, blocks } = shown(m);
    const answers = results(blocks);
    for (const r of answers) if (!open.delete(r.id ?? '')) bad.push(`Message ${i} is the result of no call right before it.`);
    const more = format === 'anthropic.messages' ? role === 'assistant' : role !== 'tool';
    if (more || (format === 'anthropic.messages' && answers.length === 0)) {
      if (open.size > 0) bad.push(`Message ${i} comes before the result of the call ${[...open][0]}.`);
      open = new Set();
    }
    for (const c of calls(blocks)) open.add(c.id ?? '');
  });
  if (open.size > 0) bad.push(`The call ${[...open][0]} has no result.`);
  return bad;
}

/** Whether the roles are in an order that the format allows. */
export function order(format: Format, messages: unknown[]): Rule {
  const name = 'order';
  const roles = messages.map((m) => shown(m).role);
  if (format === 'text') return { name, state: 'ok', says: 'A text has no roles.' };
  const first = roles.find((r) => r !== 'system' && r !== 'developer');
  if (format === 'anthropic.messages') {
    if (first !== undefined && first !== 'user') return { name, state: 'bad', says: `The first message is the ${first}'s, not the user's.` };
    const strange = roles.findIndex((r) => r !== 'user' && r !== 'assistant');
    if (strange >= 0) return { name, state: 'bad', says: `Message ${strange} has the role ${roles[strange] || 'none'}.` };
  } else if (format === 'openai.chat') {
    const known = new Set(['system', 'developer', 'user', 'assistant', 'tool', 'function']);
    const strange = roles.findIndex((r) => !known.has(r));
    if (strange >= 0) return { name, state: 'bad', says: `Message ${strange} has the role ${roles[strange] || 'none'}.` };
    if (first === 'tool') return { name, state: 'bad', says: 'The window begins with the result of a tool.' };
  }
  return { name, state: 'ok', says: 'The roles come in an order that the provider takes.' };
}

/** Whether the ids of calls are unique within a window, as providers require. */
export function unique(messages: unknown[]): Rule {
  const name = 'call ids';
  const seen = new Set<string>();
  for (const m of messages) {
    for (const c of calls(shown(m).blocks)) {
      if (c.id && seen.has(c.id)) return { name, state: 'bad', says: `Two calls have the id ${c.id}.` };
      if (c.id) seen.add(c.id);
    }
  }
  return { name, state: 'ok', says: seen.size ? `${seen.size} calls have ids of their own.` : 'There are no calls.' };
}

/** What happened to the models' thinking. */
export function thinking(left: { left_out: number; needs?: string; strange?: number } | undefined, messages: unknown[]): Rule {
  const name = 'thinking';
  if (left?.needs) {
    return { name, state: 'bad', says: `An open turn lost thinking: send the call with prefix_mismatch_behavior "${left.needs}".` };
  }
  if (left && left.left_out > 0) {
    return { name, state: 'note', says: `${left.left_out} thinking blocks were left out, because they were made behind another prompt and the provider would refuse them.` };
  }
  if (left?.strange) return { name, state: 'note', says: `${left.strange} reasoning items may be ignored by the provider.` };
  const here = messages.flatMap((m) => shown(m).blocks).filter((b) => b.kind === 'thinking').length;
  return { name, state: 'ok', says: here ? `All ${here} thinking blocks stand behind the prompt that they were made for.` : 'There is no thinking.' };
}

/** Whether the window fits into its budget. */
export function budget(parts: Record<string, number>, bound: { tokens: number; messages: number }, used: { tokens: number; messages: number }): Rule {
  const name = 'budget';
  if (bound.messages && used.messages > bound.messages) return { name, state: 'bad', says: `${used.messages} messages are more than ${bound.messages}.` };
  if (bound.tokens && used.tokens > bound.tokens) return { name, state: 'bad', says: `${used.tokens} tokens are more than ${bound.tokens}.` };
  return { name, state: 'ok', says: `${parts.free ?? 0} tokens are free.` };
}

export function check(format: Format, messages: unknown[], left?: { left_out: number; needs?: string; strange?: number }): Rule[] {
  return [pairs(format, messages), order(format, messages), unique(messages), thinking(left, messages)];
}
