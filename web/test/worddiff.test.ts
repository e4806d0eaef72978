import { expect, test } from 'vitest';
import { wordDiff } from '../src/lib/worddiff';
import { random } from './random';

// The law of a difference: what stayed with what was taken out is the text before, with what was added the text after.
test('a difference holds both texts', () => {
  const words = ['order', 'order ', ' ', '\n', 'eighteen', '17', '.', ', ', 'Küche', '台', '🙂', '"', '{}', 'shipped '];
  for (let seed = 1; seed <= 500; seed++) {
    const r = random(seed);
    const text = () => Array.from({ length: r.below(40) }, () => r.of(words)).join('');
    const before = text();
    const after = r.below(3) === 0 ? before.replace(r.of(words), r.of(words)) : text();
    const changes = wordDiff(before, after);
    expect(changes.filter((c) => c.kind !== 'added').map((c) => c.text).join(''), `seed ${seed}`).toBe(before);
    expect(changes.filter((c) => c.kind !== 'removed').map((c) => c.text).join(''), `seed ${seed}`).toBe(after);
    if (before === after) expect(changes.every((c) => c.kind === 'same')).toBe(true);
  }
});

test('one changed word is one change', () => {
  expect(wordDiff('flies from SFO now', 'flies from JFK now')).toEqual([
    { kind: 'same', text: 'flies from ' }, { kind: 'removed', text: 'SFO' }, { kind: 'added', text: 'JFK' }, { kind: 'same', text: ' now' },
  ]);
});

test('texts of a megabyte take no time', () => {
  const long = 'word '.repeat(200_000);
  const changes = wordDiff(long + 'a', 'b' + long);
  expect(changes.filter((c) => c.kind !== 'added').map((c) => c.text).join('')).toBe(long + 'a');
});
