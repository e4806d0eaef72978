const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const stamp = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** 18,240 */
export const count = (n: number) => whole.format(n);

/** 18.2K, for numbers that would be long */
export const brief = (n: number) => (Math.abs(n) < 10_000 ? whole.format(n) : short.format(n));

/** "1 message", "2 messages" */
export const many = (n: number, one: string, more = one + 's') => `${count(n)} ${n === 1 ? one : more}`;

/** +2,310 and −88, with a real minus. */
export const signed = (n: number) => (n > 0 ? '+' : n < 0 ? '−' : '±') + whole.format(Math.abs(n));

export const percent = (share: number) => {
  const p = share * 100;
  return (p > 99 && p < 100 ? '99.9' : p > 0 && p < 1 ? '<1' : String(Math.round(p))) + '%';
};

/** 740 µs, 1.2 ms, 3.4 s */
export function micros(n: number): string {
  if (n < 1000) return `${whole.format(n)} µs`;
  if (n < 1_000_000) return `${(n / 1000).toFixed(n < 10_000 ? 1 : 0)} ms`;
  return `${(n / 1_000_000).toFixed(1)} s`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}

export const moment = (at: string | null | undefined) => (at ? stamp.format(new Date(at)) : '–');

/** "3 min ago"; the absolute time is shown as a title. */
export function ago(at: string | null | undefined, now = Date.now()): string {
  if (!at) return '–';
  const seconds = Math.round((now - new Date(at).getTime()) / 1000);
  const past = Math.abs(seconds);
  const text =
    past < 45 ? 'now' : past < 5400 ? `${Math.max(1, Math.round(past / 60))} min`
    : past < 129_600 ? `${Math.round(past / 3600)} h`
    : `${Math.round(past / 86_400)} d`;
  if (text === 'now') return 'just now';
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

/** The first line of a text, cut to the length of a row. */
export function preview(text: string, length = 240): string {
  const line = text.slice(0, length * 2).replace(/\s+/g, ' ').trim();
  return line.length > length ? line.slice(0, length - 1) + '…' : line;
}
