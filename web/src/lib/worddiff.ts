export interface Change {
  kind: 'same' | 'added' | 'removed';
  text: string;
}

const words = (text: string) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
const most = 1200;

/** What changed from one text to another, by words. The middle of very long texts counts as changed. */
export function wordDiff(before: string, after: string): Change[] {
  const a = words(before);
  const b = words(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail);
  const y = b.slice(head, b.length - tail);
  const out: Change[] = [];
  const put = (kind: Change['kind'], text: string) => {
    if (!text) return;
    const last = out[out.length - 1];
    if (last?.kind === kind) last.text += text;
    else out.push({ kind, text });
  };
  put('same', a.slice(0, head).join(''));
  if (x.length > most || y.length > most) {
    put('removed', x.join(''));
    put('added', y.join(''));
  } else {
    // The longest common subsequence, by the usual table.
    const width = y.length + 1;
    const table = new Uint16Array((x.length + 1) * width);
    for (let i = x.length - 1; i >= 0; i--) {
      for (let j = y.length - 1; j >= 0; j--) {
        table[i * width + j] =
          x[i] === y[j] ? table[(i + 1) * width + j + 1]! + 1 : Math.max(table[(i + 1) * width + j]!, table[i * width + j + 1]!);
      }
    }
    let i = 0;
    let j = 0;
    while (i < x.length && j < y.length) {
      if (x[i] === y[j]) {
        put('same', x[i]!);
        i++;
        j++;
      } else if (table[(i + 1) * width + j]! >= table[i * width + j + 1]!) put('removed', x[i++]!);
      else put('added', y[j++]!);
    }
    put('removed', x.slice(i).join(''));
    put('added', y.slice(j).join(''));
  }
  put('same', a.slice(a.length - tail).join(''));
  return out;
}
