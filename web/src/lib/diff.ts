import type { Row } from './fates';
import { stays } from './fates';

/** What happened to one message in two windows. */
export interface DiffRow {
  id: string;
  turn: number | null;
  before?: Row;
  after?: Row;
  kind: 'same' | 'entered' | 'left' | 'more' | 'less' | 'other';
}

const inside = (r: Row | undefined) => !!r && r.action !== 'drop' && r.tokens_after > 0;

function kind(before: Row | undefined, after: Row | undefined): DiffRow['kind'] {
  const was = inside(before);
  const is = inside(after);
  if (was !== is) return is ? 'entered' : 'left';
  if (!was) return 'same';
  if (before!.action === after!.action && before!.tokens_after === after!.tokens_after) return 'same';
  if (before!.tokens_after !== after!.tokens_after) return after!.tokens_after > before!.tokens_after ? 'more' : 'less';
  return stays(before!.action) === stays(after!.action) ? 'other' : stays(after!.action) ? 'more' : 'less';
}

/** Compares two reports message by message, in the order of the second. Rows of the first only keep their position. */
export function diffReports(a: Row[], b: Row[]): DiffRow[] {
  // If several rows have one message, such as memories that are shown twice, they are numbered.
  const named = (rows: Row[]) => {
    const times = new Map<string, number>();
    return rows
      .filter((r) => r.reason_code !== 'beyond_horizon')
      .map((r) => {
        const id = r.message_id ?? r.reason_code;
        const n = times.get(id) ?? 0;
        times.set(id, n + 1);
        return { id: n ? `${id}#${n}` : id, row: r };
      });
  };
  const first = named(a);
  const second = named(b);
  const before = new Map(first.map((r) => [r.id, r.row]));
  const after = new Set(second.map((r) => r.id));
  const out: DiffRow[] = [];
  const places = new Map(first.map((r, i) => [r.id, i]));
  let at = 0;
  const gone = (until: number) => {
    for (; at < until; at++) {
      const { id, row } = first[at]!;
      if (!after.has(id)) out.push({ id, turn: row.turn, before: row, kind: kind(row, undefined) });
    }
  };
  for (const { id, row } of second) {
    gone(places.get(id) ?? at);
    out.push({ id, turn: row.turn, before: before.get(id), after: row, kind: kind(before.get(id), row) });
  }
  gone(first.length);
  return out;
}

export function summary(rows: DiffRow[]) {
  const sum = { entered: 0, left: 0, more: 0, less: 0, other: 0, same: 0, tokens: 0 };
  for (const r of rows) {
    sum[r.kind]++;
    sum.tokens += (r.after?.tokens_after ?? 0) - (r.before?.tokens_after ?? 0);
  }
  return sum;
}

/** How many messages two windows have in common at the beginning: a provider's cache can reuse no more. */
export function commonPrefix(a: unknown[], b: unknown[]): number {
  let n = 0;
  while (n < a.length && n < b.length && JSON.stringify(a[n]) === JSON.stringify(b[n])) n++;
  return n;
}
