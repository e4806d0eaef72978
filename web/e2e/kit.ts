import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium, type Browser, type BrowserContext, type Page, type Request } from 'playwright-core';

const here = dirname(fileURLToPath(import.meta.url));
export const artefacts = process.env.MNEME_ARTEFACTS ?? join(here, 'artefacts');

/** The first and the second version of the demo's policy. */
export const modules = ['latest-only-1', 'latest-only'].map((name) => join(here, '..', '..', 'demo', name, name + '.wasm'));
const browserPath = process.env.MNEME_CHROMIUM ?? '/usr/bin/chromium';

/** What opens every server of these tests to its operator. */
export const rootKey = 'root-key-of-the-tests-in-a-browser';

/** A running server: the real program, on a port of its own, with a folder of its own. */
export class Server {
  private constructor(
    readonly url: string,
    readonly key: string,
    readonly link: string,
    private readonly program: string,
    private readonly folder: string,
    private readonly process: ChildProcess,
  ) {}

  /** Starts the program with an empty folder, and with further flags of `serve`. */
  static async start(...flags: string[]): Promise<Server> {
    const folder = mkdtempSync(join(tmpdir(), 'mneme-console-'));
    let program = process.env.MNEME_BINARY ?? '';
    if (!program) {
      program = join(folder, 'mneme');
      execFileSync('go', ['build', '-o', program, '.'], { cwd: join(here, '..', '..'), stdio: 'inherit' });
    }
    const data = join(folder, 'data');
    const child = spawn(program, ['serve', '--listen', '127.0.0.1:0', '--data', data, ...flags], { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, MNEME_ROOT_KEY: rootKey } });
    let said = '';
    const url = await new Promise<string>((found, failed) => {
      const hear = (d: Buffer) => {
        said += d.toString();
        const at = /^listening on (http:\S+)$/m.exec(said);
        if (at) found(at[1]!);
      };
      child.stdout.on('data', hear);
      child.stderr.on('data', hear);
      child.on('exit', () => failed(new Error('the server ended: ' + said)));
    });
    const link = /http:\S+#link=\S+/.exec(said)?.[0] ?? '';
    return new Server(url, readFileSync(join(data, 'admin.key'), 'utf8').trim(), link, program, folder, child);
  }

  /** Another link that signs in, as the program prints it. */
  newLink(): string {
    const said = execFileSync(this.program, ['console', '--url', this.url, '--data', join(this.folder, 'data')], { encoding: 'utf8' });
    return /http:\S+#link=\S+/.exec(said)![0];
  }

  async stop(): Promise<void> {
    const ended = new Promise((done) => this.process.on('exit', done));
    this.process.kill('SIGTERM');
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Uploads a module as the next version of a policy. */
  async upload(policy: string, file: string): Promise<void> {
    const response = await fetch(`${this.url}/api/v1/policies?name=${policy}`, { method: 'POST', headers: { Authorization: `Bearer ${this.key}`, 'Content-Type': 'application/wasm' }, body: readFileSync(file) });
    if (!response.ok) throw new Error(`${file}: ${response.status} ${await response.text()}`);
  }

  /** A request of the API with a key. A status of 400 or more is an error, unless `any` is set. */
  async call<T = any>(method: string, path: string, body?: unknown, key = this.key): Promise<T> {
    const response = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text ? JSON.parse(text) : undefined) as T;
  }
}

export async function launch(): Promise<Browser> {
  if (!existsSync(browserPath)) throw new Error(`${browserPath} is missing: apt-get install chromium, or set MNEME_CHROMIUM`);
  return chromium.launch({
    executablePath: browserPath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
}

/** What a page must never do, collected while it is used. */
export interface Watched {
  page: Page;
  context: BrowserContext;
  troubles: string[];
}

/** A page that reports errors, violations of its policy, dialogs, and requests to anywhere but the server. */
export async function open(browser: Browser, server: Server, options: Parameters<Browser['newContext']>[0] = {}): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, reducedMotion: 'reduce', ...options });
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.url });
  const troubles: string[] = [];
  await context.exposeBinding('reportViolation', (_source, what: string) => void troubles.push('policy: ' + what));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (e) => {
      void (window as unknown as { reportViolation: (what: string) => void }).reportViolation(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`);
    });
  });
  const page = await context.newPage();
  page.on('pageerror', (e) => troubles.push('error: ' + e.message + '\n' + (e.stack ?? '').slice(0, 400)));
  page.on('console', (m) => {
    // A refused request is part of some tests, and Chromium writes each into the console.
    if (m.type() === 'error' && !/Failed to load resource/.test(m.text())) troubles.push('console: ' + m.text());
  });
  page.on('dialog', (d) => {
    troubles.push('dialog: ' + d.message());
    void d.dismiss();
  });
  const pending = new Set<Request>();
  asked.set(page, pending);
  page.on('response', (r) => void pending.delete(r.request()));
  page.on('requestfailed', (r) => void pending.delete(r));
  page.on('request', (r) => {
    if (!r.url().includes('/stream')) pending.add(r);
    const to = new URL(r.url());
    if (to.origin !== server.url && to.protocol !== 'data:' && to.protocol !== 'blob:') troubles.push('request: ' + r.url());
  });
  return { page, context, troubles };
}

/** Signs in by a link, as a person does who follows what the program printed. */
export async function signIn(watched: Watched, server: Server): Promise<void> {
  await watched.page.goto(server.newLink());
  await watched.page.getByRole('heading', { level: 1 }).waitFor();
  await watched.page.locator('nav#pages').waitFor({ state: 'attached' });
}

/** The requests of a page that are not answered yet; streams, which stay open, are left out. */
const asked = new WeakMap<Page, Set<Request>>();

/** Opens a path of the console and waits until nothing is loading any more. */
export async function visit(page: Page, server: Server, path: string): Promise<void> {
  await page.goto(server.url + '/console' + path);
  await settled(page);
}

export async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  for (let still = 0, rounds = 0; still < 3; rounds++) {
    if (rounds > 600) throw new Error('still loading: ' + [...(asked.get(page) ?? [])].map((r) => r.url()).join(', '));
    await page.evaluate(() => new Promise((done) => setTimeout(done, 30)));
    const busy = (asked.get(page)?.size ?? 0) > 0 || (await page.locator('.waiting').count()) > 0;
    still = busy ? 0 : still + 1;
  }
}

export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(artefacts, { recursive: true });
  await page.screenshot({ path: join(artefacts, name + '.png') });
}
