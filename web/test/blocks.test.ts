import { expect, test } from 'vitest';
import { atoms } from '../src/lib/atoms';
import { line, shown } from '../src/lib/blocks';
import type { Message } from '../src/lib/window';

// The same talk in three formats reads alike.
test('a call and its result are read in each format', () => {
  const call = { kind: 'call', name: 'track', id: 'c1', text: '{\n  "order": 17\n}' };
  const result = { kind: 'result', id: 'c1', text: 'shipped' };
  expect(shown({ role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'track', arguments: '{"order":17}' } }] }).blocks).toEqual([call]);
  expect(shown({ role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'track', input: { order: 17 } }] }).blocks).toEqual([call]);
  expect(shown({ type: 'function_call', call_id: 'c1', name: 'track', arguments: '{"order":17}' }).blocks).toEqual([call]);
  expect(shown({ role: 'tool', tool_call_id: 'c1', content: 'shipped' }).blocks).toMatchObject([result]);
  expect(shown({ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'shipped' }] }] }).blocks).toMatchObject([result]);
  expect(shown({ type: 'function_call_output', call_id: 'c1', output: 'shipped' }).blocks).toMatchObject([result]);
});

test('nothing of a strange message is lost, and none throws', () => {
  for (const strange of [null, 7, 'text', [], {}, { type: 'web_search_call', id: 'ws_1' }, { role: 'user', content: [{ type: 'hologram', data: 'x' }] }, { role: 'user', content: 5 }]) {
    expect(() => line(shown(strange))).not.toThrow();
  }
  expect(line(shown({ type: 'web_search_call', id: 'ws_1' }))).toContain('ws_1');
  expect(line(shown({ role: 'user', content: [{ type: 'hologram', data: 'x' }] }))).toContain('hologram');
});

test('data of a picture is not shown, its type is', () => {
  const text = shown({ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,' + 'A'.repeat(9999) } }] }).blocks[0]!.text;
  expect(text).toBe('data:image/png;base64,…');
});

test('results stand with their call, and with no other turn', () => {
  let n = 0;
  const message = (turn: number, m: unknown): Message => ({ id: `m${n++}`, turn, role: '', type: '', agent: '', delegation_id: null, tokens: 5, created_at: '', format: 'openai.chat', content: '', message: m }) as Message;
  const call = { role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'f', arguments: '{}' } }, { id: 'b', function: { name: 'g', arguments: '{}' } }] };
  const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'r' });
  const found = atoms([message(1, { role: 'user', content: 'q' }), message(1, call), message(1, result('a')), message(1, result('b')), message(1, { role: 'assistant', content: 'ok' }), message(2, result('c'))]);
  expect(found.map((a) => a.messages.length)).toEqual([1, 3, 1, 1]);
  expect(found[1]!.tokens).toBe(15);
});
