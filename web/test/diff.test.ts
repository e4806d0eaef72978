import { expect, test } from 'vitest';
import { commonPrefix, diffReports, summary } from '../src/lib/diff';
import type { Row } from '../src/lib/fates';
import { random } from './random';

const row = (id: string, action: Row['action'], after: number, turn = 1): Row =>
  ({ message_id: id, turn, atom: null, window_index: null, action, policy: '', step: null, reason_code: 'x', reason: '', tokens_before: 10, tokens_after: after });

test('each message of either report has one row, in the order of the second', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const r = random(seed);
    const ids = Array.from({ length: r.below(30) }, (_, i) => `m${i}`);
    const pick = () => ids.filter(() => r.below(3) > 0).map((id) => row(id, r.of<Row['action']>(['keep', 'drop', 'compress', 'stub']), r.below(20)));
    const a = pick();
    const b = pick();
    const rows = diffReports(a, b);
    const said = `seed ${seed}`;
    expect(new Set(rows.map((x) => x.id)).size, said).toBe(rows.length);
    expect(rows.filter((x) => x.after).map((x) => x.after), said).toEqual(b);
    // What only the first has stands where it stood there, so both orders are kept.
    expect(rows.filter((x) => x.before).map((x) => x.before), said).toEqual(a);
    const tokens = (list: Row[]) => list.reduce((n, x) => n + x.tokens_after, 0);
    expect(summary(rows).tokens, said).toBe(tokens(b) - tokens(a));
    expect(diffReports(a, a).every((x) => x.kind === 'same'), said).toBe(true);
  }
});

test('what came, went, grew and shrank is told apart', () => {
  const a = [row('1', 'drop', 0), row('2', 'keep', 10), row('3', 'keep', 10), row('4', 'stub', 3), row('5', 'keep', 10)];
  const b = [row('1', 'keep', 10), row('2', 'drop', 0), row('3', 'truncate', 6), row('4', 'keep', 10), row('5', 'keep', 10)];
  expect(diffReports(a, b).map((x) => x.kind)).toEqual(['entered', 'left', 'less', 'more', 'same']);
});

test('a prefix ends at the first message that differs', () => {
  const m = (text: string) => ({ role: 'user', content: text });
  expect(commonPrefix([m('a'), m('b'), m('c')], [m('a'), m('x'), m('c')])).toBe(1);
  expect(commonPrefix([m('a')], [m('a'), m('b')])).toBe(1);
  expect(commonPrefix([], [m('a')])).toBe(0);
});
