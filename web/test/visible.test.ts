import { expect, test } from 'vitest';
import { pieces } from '../src/lib/visible';

test('what hides or turns a text is shown by its code', () => {
  const hidden = ['\u202e', '\u2066', '\u200b', '\u00ad', '\ufeff', '\u0000', '\u001b', '\u2028', '\u{e0041}', '\u061c', '\u115f', '\r'];
  for (const character of hidden) {
    const found = pieces(`a${character}b`);
    expect(found.map((p) => !!p.hidden), JSON.stringify(character)).toEqual([false, true, false]);
    expect(found[1]!.text).toBe('U+' + character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0'));
  }
});

test('ordinary texts stay as they are, in any script', () => {
  for (const text of ['plain', 'two\nlines\twith tabs', 'Küche 台 العربية עברית', '🙂👍🏽', '', 'a\r\nb']) {
    expect(pieces(text).map((p) => p.text).join('')).toBe(text);
    expect(pieces(text).some((p) => p.hidden)).toBe(false);
  }
});
