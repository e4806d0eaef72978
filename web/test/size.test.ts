import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';

// What browsers load, as it is committed: what the page names, and what that imports at once.
const dist = new URL('../dist/', import.meta.url);
const files = readdirSync(new URL('assets/', dist));
const packed = (name: string) => gzipSync(readFileSync(new URL(`assets/${name}`, dist)), { level: 9 }).length;
const sum = (names: string[]) => names.reduce((n, name) => n + packed(name), 0);
const page = readFileSync(new URL('index.html', dist), 'utf8');

test('the console stays small', () => {
  const entry = new Set([...page.matchAll(/assets\/([\w.-]+\.js)/g)].map((m) => m[1]!));
  for (const name of entry) {
    for (const [, next] of readFileSync(new URL(`assets/${name}`, dist), 'utf8').matchAll(/from\s*"\.\/([\w.-]+\.js)"/g)) entry.add(next!);
  }
  expect(entry.size).toBeGreaterThan(0);
  const kilobytes = (n: number) => Math.round(n / 102.4) / 10;
  const scripts = files.filter((f) => f.endsWith('.js'));
  console.log(`entry ${kilobytes(sum([...entry]))} KiB, all ${kilobytes(sum(scripts))} KiB, CSS ${kilobytes(sum(files.filter((f) => f.endsWith('.css'))))} KiB, packed`);
  expect(sum([...entry])).toBeLessThanOrEqual(60 * 1024);
  expect(sum(scripts)).toBeLessThanOrEqual(160 * 1024);
  expect(sum(files.filter((f) => f.endsWith('.css')))).toBeLessThanOrEqual(15 * 1024);
});

test('the page has no script, style or handler of its own, and loads nothing from elsewhere', () => {
  expect(page).not.toMatch(/<style|style=|\son\w+=|<script(?![^>]*\ssrc=)/);
  expect(page).not.toMatch(/https?:\/\//);
});
