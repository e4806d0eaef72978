import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fill, fillHostile, hostile, p } from './fill';
import { launch, open, picture, Server, settled, signIn, visit, type Watched } from './kit';

let server: Server;
let browser: Browser;
let decision: string;
let evil: string;

beforeAll(async () => {
  browser = await launch();
  server = await Server.start();
  ({ decision } = await fill(server));
  evil = await fillHostile(server);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

async function using(options: Parameters<typeof open>[2], work: (w: Watched) => Promise<void>): Promise<void> {
  const watched = await open(browser, server, options);
  try {
    await signIn(watched, server);
    await work(watched);
    expect(watched.troubles).toEqual([]);
  } finally {
    await watched.context.close();
  }
}

/** Every screen, with something on it. */
const screens = (): [string, string][] => [
  ['projects', '/'],
  ['sessions', '/p/shop/sessions'],
  ['session', '/p/shop/s/order-17-help'],
  ['xray', `/p/shop/s/order-17-help/x?d=${decision}`],
  ['xray-message', `/p/shop/s/order-17-help/x?d=${decision}&fate=compress&m=pending%3A0`],
  ['xray-claude', '/p/shop/s/claude-desk/x'],
  ['lab', `/p/shop/s/order-17-help/lab?d=${decision}&tok=2500`],
  ['decisions', '/p/shop/decisions'],
  ['memories', '/p/shop/memories'],
  ['memories in a namespace', '/p/shop/memories?ns=%5B%22customers%22%5D'],
  ['memory', '/p/shop/memories/ships-from'],
  ['recall', '/p/shop/recall?q=where%20do%20parcels%20leave%20from'],
  ['policies', '/policies'],
  ['policy', '/policies/latest-only'],
  ['policy-run', '/policies/latest-only/v/2?view=run'],
  ['policy-replay', '/policies/latest-only/v/2?view=replay'],
  ['boards', '/boards'],
  ['board', '/boards/desk'],
  ['usage', '/p/shop/usage?by=hour'],
  ['settings', '/p/shop/settings'],
  ['keys', '/admin/keys'],
  ['summaries', '/admin/usage'],
  ['limits', '/admin/limits'],
  ['retention', '/admin/retention'],
  ['audit', '/admin/audit'],
  ['nothing', '/no/such/page'],
];

describe('every screen', () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  for (const theme of ['light', 'dark'] as const) {
    for (const width of [1280, 390]) {
      test(`${theme}, ${width} pixels: shows what it is, has no fault of accessibility, fits`, async () => {
        await using({ colorScheme: theme, viewport: { width, height: width === 390 ? 844 : 860 } }, async ({ page }) => {
          for (const [name, path] of screens()) {
            if (name === 'nothing') {
              await page.goto(server.url + '/console' + path);
              await page.getByText('There is no such page').waitFor();
            } else await visit(page, server, path);
            await picture(page, `${name}-${theme}-${width}`);
            await page.evaluate(axe);
            const found = await page.evaluate(async () => {
              const result = await (window as any).axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
              return result.violations.map((v: any) => `${v.id}: ${v.nodes.slice(0, 3).map((n: any) => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`);
            });
            expect.soft(found, `${name} ${theme} ${width}`).toEqual([]);
            const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
            expect.soft(wide, `${name} is ${wide} pixels wider than a window of ${width}`).toBeLessThanOrEqual(0);
          }
        });
      });
    }
  }
});

describe('X-ray', () => {
  test('shows each considered message with its fate, and the window beside it, as the API says', async () => {
    const told = await server.call('GET', `${p}/decisions/${decision}`);
    await using({}, async ({ page }) => {
      await visit(page, server, `/p/shop/s/order-17-help/x?d=${decision}`);
      const rows = told.report.filter((r: any) => r.reason_code !== 'beyond_horizon');
      for (const [action, word] of [['drop', 'dropped'], ['compress', 'compressed'], ['keep', 'kept']]) {
        const n = rows.filter((r: any) => r.action === action).length;
        expect(n, word).toBeGreaterThan(0);
        await page.getByRole('button', { name: new RegExp(`^${word} ${n}$`) }).waitFor();
      }
      await page.getByText('replay equal ✓').waitFor();
      await page.getByText(`${told.usage.messages} messages`, { exact: false }).first().waitFor();
      // Filtering by a step lists just what that step decided.
      const step = told.pipeline.findIndex((s: any) => s.policy === 'tool-pair-trim');
      await page.getByRole('button', { name: /^tool-pair-trim/ }).click();
      await page.locator('#considered-title', { hasText: String(told.report.filter((r: any) => r.step === step).length) }).waitFor();
      await page.getByRole('button', { name: /^tool-pair-trim/ }).click();
    });
  });

  test('joins a message to its place by pointing and by choosing', async () => {
    await using({}, async ({ page }) => {
      await visit(page, server, `/p/shop/s/order-17-help/x?d=${decision}&fate=keep`);
      const row = page.locator('.crow').last();
      await row.hover();
      await page.locator('.ribbon .lit').waitFor();
      await row.locator('.crow-main').click();
      await page.locator('.window-item.selected').waitFor();
      expect(await page.locator('.window-item.selected .prose, .window-item.selected pre').first().textContent()).toBe(
        await page.locator('.crow.selected .row-detail .prose, .crow.selected .row-detail pre').first().textContent(),
      );
      await page.locator('.window-item.selected').getByRole('button', { name: /close/ }).click();
      await page.locator('.window-item.selected').waitFor({ state: 'detached' });
    });
  });

  test('why not: names a budget at which the message is there, and the API agrees', async () => {
    const told = await server.call('GET', `${p}/decisions/${decision}`);
    const lost = told.report.filter((r: any) => r.action === 'drop' && r.reason_code !== 'beyond_horizon' && r.message_id).at(-1);
    await using({}, async ({ page }) => {
      await visit(page, server, `/p/shop/s/order-17-help/x?d=${decision}&m=${lost.message_id}&v=why`);
      await page.getByText('made to find out').waitFor();
      const text = (await page.locator('.whynot').textContent()) ?? '';
      const bounds = [...text.matchAll(/from ([\d,]+) (tokens|messages|turns in full) on \(now/g)].map((m) => ({ n: Number(m[1]!.replaceAll(',', '')), unit: m[2]! }));
      expect(bounds.length, text).toBeGreaterThan(0);
      for (const { n, unit } of bounds) {
        const rules = (v: number) => (unit === 'tokens' ? { budget: { max_tokens: v } } : unit === 'messages' ? { budget: { max_messages: v } } : { settings: { session_history_depth: v } });
        if (unit === 'turns in full') continue; // a decision's pipeline has its depth in the config
        const fate = async (v: number) => (await server.call('POST', `${p}/decisions/${decision}/fork`, rules(v))).report.find((r: any) => r.message_id === lost.message_id)?.action;
        expect(['keep', 'strip', 'truncate'], `${unit} ${n}`).toContain(await fate(n));
        expect(['keep', 'strip', 'truncate'], `${unit} ${n - 1}`).not.toContain(await fate(n - 1));
      }
    });
  });

  test('copies its address and its request', async () => {
    await using({}, async ({ page }) => {
      await visit(page, server, `/p/shop/s/order-17-help/x?d=${decision}`);
      await page.keyboard.press('c');
      await page.getByRole('button', { name: 'Python' }).click();
      await page.getByRole('button', { name: 'Copy', exact: true }).click();
      expect(await page.evaluate(() => navigator.clipboard.readText())).toContain('urllib.request');
      await page.keyboard.press('Escape');
      await page.keyboard.press('y');
      await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(page.url());
    });
  });
});

describe('lab', () => {
  test('a slider changes the window at once, stores nothing, and can become the settings', async () => {
    const before = (await server.call('GET', `${p}/decisions?limit=1`)).data[0].id;
    await using({}, async ({ page }) => {
      await visit(page, server, `/p/shop/s/order-17-help/lab?d=${decision}`);
      await page.getByText('Both windows treat every message alike').waitFor();
      await page.getByLabel('Token budget').focus();
      for (let i = 0; i < 12; i++) await page.keyboard.press('ArrowLeft');
      await page.waitForURL(/tok=\d+/);
      await page.locator('.diff-left').first().waitFor();
      const tokens = Number(new URL(page.url()).searchParams.get('tok'));
      const told = await server.call('POST', `${p}/decisions/${decision}/fork`, { budget: { max_tokens: tokens } });
      const out = told.usage.messages - (await server.call('GET', `${p}/decisions/${decision}`)).usage.messages;
      await expect.poll(async () => page.locator('.deltas').textContent()).toContain(`${out < 0 ? '−' : '+'}${Math.abs(out)} messages`);
      // A config by its schema.
      await page.getByRole('button', { name: /tool-pair-trim/ }).first().click();
      await page.getByLabel('low_water').fill('0.6');
      await page.keyboard.press('Tab');
      await page.waitForURL(/pl=/);
      await settled(page);
      await page.getByRole('button', { name: '20 newest sessions' }).click();
      await page.getByText(/\d+ sessions?: tokens/).waitFor();
      expect(await page.getByRole('region', { name: 'Sessions under B' }).locator('tbody tr').count()).toBeGreaterThan(2);
      await page.getByRole('button', { name: 'Save as settings…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      const settings = await server.call('GET', `${p}/settings`);
      expect(settings.history_max_tokens).toBe(tokens);
      expect(settings.pipeline.find((s: any) => s.policy === 'tool-pair-trim').config).toEqual({ low_water: 0.6 });
      expect(settings.pipeline.map((s: any) => s.policy)).toEqual(['delegation-filter', 'tool-result-clear', 'summarise', 'tool-pair-trim']);
      await server.call('PATCH', `${p}/settings`, { history_max_tokens: 8000, pipeline: settings.pipeline.map((s: any) => ({ policy: s.policy })) });
    });
    expect((await server.call('GET', `${p}/decisions?limit=1`)).data[0].id).toBe(before);
  });
});

describe('hostile texts', () => {
  test('nothing of them is executed, loaded or made markup, on any screen', async () => {
    const watched = await open(browser, server);
    await signIn(watched, server);
    const { page } = watched;
    const paths = [
      '/', '/p/evil/sessions', '/p/evil/sessions?q=script', '/p/evil/s/evil', '/p/evil/s/evil/x', `/p/evil/s/evil/x?d=${evil}`, `/p/evil/s/evil/x?d=${evil}&m=pending%3A0&v=raw`,
      `/p/evil/s/evil/lab?d=${evil}&msg=4`, '/p/evil/decisions', '/p/evil/memories', '/p/evil/memories/evil-1', '/p/evil/recall?q=script%20window', `/d/${evil}`,
      '/boards', '/boards/evil', '/admin/keys', '/admin/audit', '/policies', '/p/evil/settings',
      `/p/evil/sessions?q=${encodeURIComponent(hostile[1]!)}`, `/p/evil/recall?q=${encodeURIComponent(hostile[0]!)}`, `/p/${encodeURIComponent(hostile[1]!)}/sessions`, `/p/evil/s/evil/lab?pl=${encodeURIComponent('[{"policy":"' + '<img src=x onerror=window.pwned=9>' + '"}]')}`,
    ];
    let seen = 0;
    for (const path of paths) {
      await visit(page, server, path);
      const list = page.locator('.scroller').first();
      for (let i = 0; i < 4 && (await list.count()); i++) await list.evaluate((e, n) => void (e.scrollTop = (e.scrollHeight * n) / 4), i);
      await page.evaluate(() => document.querySelectorAll('details').forEach((d) => (d.open = true)));
      expect(await page.evaluate(() => (window as any).pwned), path).toBeUndefined();
      const made = await page.evaluate(() => document.querySelectorAll('main img, main script, main iframe, main object, main video, main [onerror], main [onload], main [onfocus], main [ontoggle], main [href^="javascript"], main a[href*="evil.example"]').length);
      expect(made, path).toBe(0);
      seen += await page.evaluate(() => (document.body.textContent?.includes('onerror=') ? 1 : 0));
    }
    expect(seen).toBeGreaterThan(8); // the texts were really there
    expect(await page.locator('.hidden-char').count()).toBeGreaterThanOrEqual(0);
    expect(watched.troubles.filter((t) => !t.startsWith('console: Failed'))).toEqual([]);

    // The watch can see: markup that a page would make is stopped by trusted types, and reported.
    await page.evaluate(() => {
      try {
        document.createElement('div').innerHTML = '<img src=x onerror="window.pwned=99">';
      } catch {}
      const script = document.createElement('script');
      try {
        script.text = 'window.pwned = 98';
        document.head.append(script);
      } catch {}
    });
    await expect.poll(() => watched.troubles.some((t) => t.startsWith('policy: require-trusted-types-for'))).toBe(true);
    expect(await page.evaluate(() => (window as any).pwned)).toBeUndefined();
    await watched.context.close();
  });

  test('characters that turn or hide a text are shown by their code', async () => {
    await using({}, async ({ page }) => {
      const i = hostile.findIndex((t) => t.includes('\u202E'));
      await visit(page, server, `/p/evil/memories/evil-${i}`);
      expect(await page.locator('.timeline').textContent()).toContain('U+202E');
      expect(await page.locator('.timeline').textContent()).not.toContain('\u202E');
    });
  });
});

describe('5,000 messages', () => {
  test('are scrolled from end to start with few elements at a time', async () => {
    for (let turn = 0; turn < 50; turn++) {
      await server.call('POST', `${p}/turns`, { session_id: 'long', messages: Array.from({ length: 100 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: `Message ${turn * 100 + i} of the long talk. ${'It has some length. '.repeat(i % 7)}` })) });
    }
    await using({}, async ({ page }) => {
      await visit(page, server, '/p/shop/s/long');
      await page.getByText('Message 4999 of', { exact: false }).waitFor();
      const list = page.getByRole('list', { name: 'Messages' });
      const places = new Set<number>();
      let most = 0;
      for (let i = 40; i >= 0; i--) {
        await list.evaluate((e, n) => void (e.scrollTop = (e.scrollHeight * n) / 40), i);
        await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
        const shown = await list.locator('.vrow').evaluateAll((rows) => rows.map((r) => Number(r.getAttribute('aria-posinset'))));
        most = Math.max(most, shown.length);
        for (const n of shown) places.add(n);
      }
      await page.getByText('Message 0 of', { exact: false }).waitFor();
      expect(most).toBeLessThan(60);
      expect(places.size).toBeGreaterThan(300);
      expect(await list.locator('.vrow').first().getAttribute('aria-setsize')).toBe('5000');
    });
  });
});

describe('live', () => {
  test('a turn that is posted appears in the transcript that is open, and so does its window', async () => {
    await using({}, async ({ page }) => {
      await visit(page, server, '/p/shop/s/claude-desk');
      await page.getByText('live', { exact: true }).waitFor();
      const window = await server.call('POST', `${p}/context`, { session_id: 'claude-desk', format: 'anthropic.messages', pending: [{ role: 'user', content: 'One more: is the shop open?' }] });
      await server.call('POST', `${p}/turns`, { session_id: 'claude-desk', decision_id: window.decision_id, messages: [{ role: 'user', content: 'One more: is the shop open?' }, { role: 'assistant', content: 'Until six, as every day.' }] });
      await page.getByText('Until six, as every day.').waitFor();
      await page.locator(`a[href*="${window.decision_id}"]`).waitFor();
    });
  });
});

describe('keyboard', () => {
  test('the whole way from the list to the lab and back, without a pointer', async () => {
    await using({}, async ({ page }) => {
      await visit(page, server, '/');
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: /A page/ }).waitFor();
      await page.keyboard.type('shop');
      await page.locator('[role=option]', { hasText: 'shop' }).first().waitFor();
      while (!(await page.locator('[role=option][aria-selected=true]').textContent())?.includes('Projects')) await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Enter');
      await page.waitForURL(/\/p\/shop\/sessions/);
      await settled(page);
      await page.keyboard.press('/');
      await page.keyboard.type('order-17');
      await page.locator('tbody tr').nth(0).getByText('order-17-help').waitFor();
      await expect.poll(() => page.locator('tbody tr').count()).toBeLessThan(4);
      await page.keyboard.press('Tab'); // letters are letters in a field; out of it they are commands
      await page.evaluate(() => (document.activeElement as HTMLElement).blur());
      await page.keyboard.press('j');
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toContain('order-17-help');
      await page.keyboard.press('Enter');
      await page.waitForURL(/\/s\/order-17-help$/);
      await settled(page);
      await page.keyboard.press('x');
      await page.waitForURL(/\/x\?d=dec_/);
      await settled(page);
      const here = page.url();
      await page.keyboard.press('[');
      await expect.poll(() => page.url()).not.toBe(here);
      await settled(page);
      await page.keyboard.press(']');
      await expect.poll(() => page.url()).toBe(here);
      await page.keyboard.press('f');
      await page.waitForURL(/fate=/);
      await page.keyboard.press('j');
      await page.locator('.crow.selected').waitFor();
      await page.keyboard.press('r');
      await page.locator('.row-detail .raw').waitFor();
      await page.keyboard.press('d');
      await page.getByRole('dialog', { name: /Changes since/ }).waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await page.keyboard.press('?');
      await page.getByRole('dialog', { name: 'Keys' }).waitFor();
      await page.keyboard.press('Escape');
      await page.keyboard.press('l');
      await page.waitForURL(/\/lab\?/);
      await page.keyboard.press('g');
      await page.keyboard.press('m');
      await page.waitForURL(/\/memories/);
    });
  });

  test('every control can be reached by Tab, shows that it has the focus, and single keys can be turned off', async () => {
    await using({}, async ({ page }) => {
      await visit(page, server, '/p/shop/sessions');
      await page.keyboard.press('Tab');
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Skip to the content');
      const reached = new Set<string>();
      for (let i = 0; i < 40; i++) {
        await page.keyboard.press('Tab');
        const at = await page.evaluate(() => {
          const e = document.activeElement as HTMLElement;
          if (e === document.body) return undefined; // past the last control, before the first
          const style = getComputedStyle(e);
          return { name: e.getAttribute('aria-label') ?? e.textContent ?? '', seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 };
        });
        if (!at) continue;
        expect(at.seen, at.name).toBe(true);
        reached.add(at.name);
      }
      expect(reached.size).toBeGreaterThan(20);
      await page.evaluate(() => (document.activeElement as HTMLElement).blur());
      await page.keyboard.press('?');
      await page.getByLabel('Use single keys').uncheck();
      await page.keyboard.press('Escape');
      await page.keyboard.press('g');
      await page.keyboard.press('d');
      expect(page.url()).toMatch(/sessions/);
    });
  });
});

describe('signing in', () => {
  test('a link works once, and the address keeps nothing of it', async () => {
    const link = server.newLink();
    const first = await open(browser, server);
    await first.page.goto(link);
    await first.page.getByRole('heading', { name: 'Projects' }).waitFor();
    expect(first.page.url()).not.toContain('link=');
    const second = await open(browser, server);
    await second.page.goto(link);
    await second.page.getByRole('button', { name: 'Sign in' }).waitFor();
    await second.page.getByRole('alert').waitFor();
    await first.context.close();
    await second.context.close();
  });

  test('a key becomes a cookie that scripts cannot read, and stays nowhere in the browser', async () => {
    const { page, context } = await open(browser, server);
    await page.goto(server.url + '/console/p/shop/sessions');
    await page.getByLabel('API key').fill('mk_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel('API key').fill(server.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: /Sessions of/ }).waitFor(); // and the address is where one wanted to go
    const kept = await page.evaluate(() => JSON.stringify({ ...localStorage }) + JSON.stringify({ ...sessionStorage }) + document.cookie);
    expect(kept).not.toContain('mk_');
    expect(kept).not.toContain('mneme_session');
    const cookie = (await context.cookies()).find((c) => c.name === 'mneme_session');
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    await page.goto(server.url + '/console/p/shop/sessions');
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    await context.close();
  });

  test('a session that ends while it is used says so', async () => {
    const made = await server.call('POST', '/api/v1/keys', { name: 'short', role: 'agent' });
    const { page, context } = await open(browser, server);
    await page.goto(server.url + '/console/');
    await page.getByLabel('API key').fill(made.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await settled(page);
    await server.call('DELETE', `/api/v1/keys/${made.id}`);
    await page.getByRole('link', { name: 'Memories' }).click();
    await page.getByText('Your session has ended').waitFor();
    await context.close();
  });

  test('roles decide which buttons there are', async () => {
    const buttons = ['Fork', 'Rewind', 'Delete', 'New memory', 'New project', 'Save as settings…'];
    const expected: Record<string, string[]> = { reader: [], agent: ['Fork', 'Rewind', 'Delete', 'New memory'], tenant_admin: buttons };
    for (const [role, allowed] of Object.entries(expected)) {
      const made = await server.call('POST', '/api/v1/keys', { name: role, role });
      const { page, context, troubles } = await open(browser, server);
      await page.goto(server.url + '/console/');
      await page.getByLabel('API key').fill(made.key);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { name: 'Projects' }).waitFor();
      const found = new Set<string>();
      for (const path of ['/', '/p/shop/s/order-17-help', '/p/shop/memories', `/p/shop/s/order-17-help/lab?d=${decision}`]) {
        await visit(page, server, path);
        for (const name of buttons) if (await page.getByRole('button', { name, exact: true }).count()) found.add(name);
      }
      expect([...found].sort(), role).toEqual([...allowed].sort());
      expect(troubles, role).toEqual([]);
      await context.close();
    }
  });
});

describe('what is written', () => {
  test('a memory is stored, versioned and forgotten', async () => {
    await using({}, async ({ page }) => {
      await visit(page, server, '/p/shop/memories');
      await page.getByRole('button', { name: 'New memory' }).click();
      await page.getByLabel('Key').fill('opening-hours');
      await page.getByLabel('Content').fill('The shop opens at nine.');
      await page.getByRole('button', { name: 'Store' }).click();
      await page.getByRole('link', { name: 'opening-hours' }).click();
      await page.getByRole('button', { name: 'New version' }).click();
      await page.getByLabel('Content').fill('The shop opens at ten.');
      await page.getByRole('button', { name: 'Store' }).click();
      await page.locator('ins', { hasText: 'ten' }).waitFor();
      await page.getByRole('button', { name: 'Forget' }).click();
      const confirm = page.getByRole('dialog').getByRole('button', { name: 'Forget it' });
      expect(await confirm.isDisabled()).toBe(true);
      await page.getByRole('dialog').getByRole('textbox').fill('opening-hours');
      await confirm.click();
      await page.getByText('It is forgotten').waitFor();
    });
    await expect(server.call('GET', `${p}/memories/opening-hours`)).rejects.toThrow(/404/);
  });

  test('namespaces lead down to their memories and up again, and a new memory lies in the one that is shown', async () => {
    await using({}, async ({ page }) => {
      await visit(page, server, '/p/shop/memories');
      const namespaces = page.getByRole('navigation', { name: 'Namespaces' });
      const outside = page.getByRole('link', { name: 'ships-from' });
      await outside.waitFor();
      await namespaces.getByRole('button', { name: 'customers / ada' }).click();
      await page.waitForURL((url) => url.searchParams.get('ns') === '["customers","ada"]');
      const rows = page.getByRole('region', { name: 'Memories' }).getByRole('row');
      await outside.waitFor({ state: 'detached' });
      await page.getByRole('link', { name: 'customers / ada / wrapping' }).waitFor();
      expect(await rows.count()).toBe(2); // the first names the columns
      await page.getByRole('button', { name: 'New memory' }).click();
      await page.getByRole('dialog').getByText('In customers / ada').waitFor();
      await page.getByLabel('Key').fill('phone');
      await page.getByLabel('Content').fill('Ada is called in the evening.');
      await page.getByRole('button', { name: 'Store' }).click();
      await page.getByRole('link', { name: 'customers / ada / phone' }).waitFor();
      await namespaces.getByRole('button', { name: 'customers', exact: true }).click();
      await page.getByRole('link', { name: 'customers / ben / wrapping' }).waitFor();
      expect(await rows.count()).toBe(4);
      await namespaces.getByRole('button', { name: 'All' }).click();
      await outside.waitFor();
    });
    await server.call('DELETE', `${p}/memories/phone?namespace=customers&namespace=ada`);
  });

  test('a session is forked, rewound and deleted', async () => {
    await using({}, async ({ page }) => {
      await visit(page, server, '/p/shop/s/claude-desk');
      await page.getByRole('button', { name: 'Fork' }).click();
      await page.getByLabel('Name of the copy').fill('copy-of-claude');
      await page.getByLabel('Up to turn').fill('6');
      await page.getByRole('dialog').getByRole('button', { name: 'Fork' }).click();
      await page.waitForURL(/copy-of-claude/);
      await settled(page);
      expect((await server.call('GET', `${p}/sessions/copy-of-claude`)).last_turn).toBe(6);
      await page.getByRole('button', { name: 'Rewind' }).click();
      await page.getByLabel(/Newest turn that stays/).fill('4');
      await page.getByLabel(/Type/).fill('copy-of-claude');
      await page.getByRole('dialog').getByRole('button', { name: 'Rewind' }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect((await server.call('GET', `${p}/sessions/copy-of-claude`)).last_turn).toBe(4);
      await page.getByRole('button', { name: 'Delete' }).click();
      await page.getByLabel(/Type/).fill('copy-of-claude');
      await page.getByRole('dialog').getByRole('button', { name: 'Delete it' }).click();
      await page.waitForURL(/sessions/);
    });
    await expect(server.call('GET', `${p}/sessions/copy-of-claude`)).rejects.toThrow(/404/);
  });
});
