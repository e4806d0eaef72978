import { expect, test } from 'vitest';
import { budget, check, order, pairs, thinking, unique } from '../src/lib/rules';

const chatCall = (...ids: string[]) => ({ role: 'assistant', content: null, tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'track', arguments: '{}' } })) });
const chatResult = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'shipped' });
const user = { role: 'user', content: 'Where is it?' };
const use = (...ids: string[]) => ({ role: 'assistant', content: ids.map((id) => ({ type: 'tool_use', id, name: 'track', input: {} })) });
const used = (...ids: string[]) => ({ role: 'user', content: ids.map((id) => ({ type: 'tool_result', tool_use_id: id, content: 'shipped' })) });
const item = (id: string) => ({ type: 'function_call', call_id: id, name: 'track', arguments: '{}' });
const output = (id: string) => ({ type: 'function_call_output', call_id: id, output: 'shipped' });

// Valid windows in each format, and the same with one fault each.
const valid: [string, Parameters<typeof pairs>[0], unknown[]][] = [
  ['chat', 'openai.chat', [{ role: 'system', content: 's' }, user, chatCall('a', 'b'), chatResult('b'), chatResult('a'), { role: 'assistant', content: 'ok' }, user]],
  ['messages', 'anthropic.messages', [user, use('a', 'b'), used('b', 'a'), { role: 'assistant', content: 'ok' }, user]],
  ['responses', 'openai.responses', [user, { type: 'reasoning', summary: [] }, item('a'), item('b'), output('a'), output('b'), user]],
];
test.each(valid)('a valid window of %s passes', (_name, format, messages) => {
  expect(check(format, messages).filter((r) => r.state !== 'ok')).toEqual([]);
});

const broken: [string, Parameters<typeof pairs>[0], unknown[]][] = [
  ['a result without a call', 'openai.chat', [user, chatResult('a')]],
  ['a call without a result', 'openai.chat', [user, chatCall('a'), user]],
  ['a call whose result comes after a user', 'openai.chat', [chatCall('a'), user, chatResult('a')]],
  ['two results of one call', 'openai.chat', [chatCall('a'), chatResult('a'), chatResult('a')]],
  ['a tool_result of another call', 'anthropic.messages', [user, use('a'), used('b')]],
  ['a tool_use without its result', 'anthropic.messages', [user, use('a'), { role: 'assistant', content: 'ok' }]],
  ['a tool_use whose result is not next', 'anthropic.messages', [user, use('a'), user, used('a')]],
  ['an output before its call', 'openai.responses', [output('a'), item('a')]],
  ['an item without its output', 'openai.responses', [user, item('a')]],
];
test.each(broken)('%s is seen', (_name, format, messages) => {
  expect(pairs(format, messages).state).toBe('bad');
});

test('the order of roles', () => {
  expect(order('anthropic.messages', [{ role: 'assistant', content: 'x' }]).state).toBe('bad');
  expect(order('anthropic.messages', [{ role: 'system', content: 'x' }, user]).state).toBe('bad');
  expect(order('openai.chat', [{ role: 'wizard', content: 'x' }]).state).toBe('bad');
  expect(order('openai.chat', [chatResult('a')]).state).toBe('bad');
  expect(order('text', [{ role: 'text', content: 'x' }]).state).toBe('ok');
});

test('ids, thinking and the budget', () => {
  expect(unique([chatCall('a'), chatResult('a'), chatCall('a')]).state).toBe('bad');
  expect(thinking({ left_out: 2 }, []).state).toBe('note');
  expect(thinking({ left_out: 1, needs: 'drop_block' }, []).state).toBe('bad');
  expect(thinking(undefined, [{ role: 'assistant', content: [{ type: 'thinking', thinking: 'hm' }] }]).says).toContain('1 thinking');
  expect(budget({ free: 0 }, { tokens: 100, messages: 0 }, { tokens: 101, messages: 3 }).state).toBe('bad');
  expect(budget({ free: 0 }, { tokens: 100, messages: 2 }, { tokens: 100, messages: 3 }).state).toBe('bad');
  expect(budget({ free: 0 }, { tokens: 100, messages: 3 }, { tokens: 100, messages: 3 }).state).toBe('ok');
});
