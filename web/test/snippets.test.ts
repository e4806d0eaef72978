import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { curl, python, typescript } from '../src/lib/snippets';

// The code is run by the real programs against a real server, which holds what arrives against what was meant.
const body = {
  session_id: "it's", system: 'Line one\nline "two" \\ $HOME `id` %s é 🙂 \u2028', explain: true, viewer: null,
  pending: [{ role: 'user', content: "don't $(rm -rf /) '; drop" }], budget: { max_tokens: 8000, share: 0.5 }, empty: [], none: {},
};
const got: { method?: string; url?: string; key?: string; body?: unknown }[] = [];
const server = createServer((request, response) => {
  let text = '';
  request.on('data', (d) => (text += d));
  request.on('end', () => {
    got.push({ method: request.method, url: request.url, key: request.headers.authorization, body: text ? JSON.parse(text) : undefined });
    response.setHeader('Content-Type', 'application/json').end('{"ok":true}');
  });
});
let origin = '';
const folder = mkdtempSync(join(tmpdir(), 'snippets-'));
beforeAll(async () => {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  origin = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

const programs: [string, (origin: string, call: Parameters<typeof curl>[1]) => string, string, string][] = [
  ['curl', curl, 'bash', 'call.sh'],
  ['python', python, 'python3', 'call.py'],
  ['typescript', typescript, process.execPath, 'call.mjs'],
];
test.each(programs)('%s sends just that request', async (_name, write, program, file) => {
  for (const call of [{ method: 'POST', path: '/api/v1/projects/a%20b/context', body }, { method: 'GET', path: "/api/v1/projects/p/decisions/dec_1?x=%27y%20z" }]) {
    writeFileSync(join(folder, file), write(origin, call));
    const { execFile } = await import('node:child_process');
    const said = await new Promise<string>((done, fail) =>
      execFile(program, [join(folder, file)], { env: { ...process.env, MNEME_KEY: 'mk_test', no_proxy: '*' } }, (error, out, err) => (error ? fail(new Error(err)) : done(out))),
    );
    expect(said).toMatch(/ok/);
    expect(got.pop()).toEqual({ method: call.method, url: call.path, key: 'Bearer mk_test', body: call.body });
  }
});

test('the key is never written into code', () => {
  for (const [, write] of programs) expect(write('http://x', { method: 'GET', path: '/' })).not.toMatch(/mk_/);
  expect(() => execFileSync('bash', ['-n'], { input: curl('http://x', { method: 'POST', path: '/', body }) })).not.toThrow();
});
