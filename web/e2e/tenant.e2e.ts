import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fill, p } from './fill';
import { launch, modules, open, picture, rootKey, Server, settled, signIn, visit } from './kit';

// What the screens of a tenant write: policies, boards, settings and administration.

let server: Server;
let browser: Browser;

beforeAll(async () => {
  browser = await launch();
  server = await Server.start();
  await fill(server);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

async function using(work: (page: Page) => Promise<void>, key?: string): Promise<void> {
  const watched = await open(browser, server);
  try {
    if (key) {
      await watched.page.goto(server.url + '/console/');
      await watched.page.getByLabel('API key').fill(key);
      await watched.page.getByRole('button', { name: 'Sign in' }).click();
      await watched.page.getByRole('heading', { name: 'Projects' }).waitFor();
    } else await signIn(watched, server);
    await work(watched.page);
    expect(watched.troubles).toEqual([]);
  } finally {
    await watched.context.close();
  }
}

const policy = '/api/v1/policies/latest-only';
const row = (page: Page, text: string) => page.locator('tbody tr', { hasText: text });

/** Presses Tab until the control of that name has the focus. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const e = document.activeElement as HTMLInputElement;
      return e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent ?? '';
    });
    if (name.test(at)) return;
  }
  throw new Error(`Tab does not reach ${name}`);
}

describe('policies', () => {
  test('a module is uploaded, made live, rolled back, tried, replayed and deleted', async () => {
    await using(async (page) => {
      await visit(page, server, '/policies');
      await page.getByRole('button', { name: 'Upload a module' }).click();
      await page.getByLabel("The policy's name").fill('newest');
      await page.getByLabel(/The module/).setInputFiles({ name: 'broken.wasm', mimeType: 'application/wasm', buffer: Buffer.from('no module') });
      await page.getByRole('button', { name: 'Upload', exact: true }).click();
      await page.getByText('It failed the check').waitFor();
      await picture(page, 'policy-refused');
      await page.getByLabel(/The module/).setInputFiles(modules[0]!);
      await page.getByRole('button', { name: 'Upload', exact: true }).click();
      await page.getByText('It is version 1 of').waitFor();
      expect(await page.getByRole('list', { name: 'Checks' }).getByText('failed').count()).toBe(0);
      await picture(page, 'policy-uploaded');
      await page.getByRole('link', { name: 'Look at it' }).click();
      await page.waitForURL(/policies\/newest\/v\/1/);
      await page.getByRole('button', { name: 'Upload a version' }).click();
      await page.getByLabel(/The module/).setInputFiles(modules[1]!);
      await page.getByRole('button', { name: 'Upload', exact: true }).click();
      await page.getByText('not live yet').waitFor();
      await page.getByRole('button', { name: 'Done' }).click();
      const live = async () => (await server.call('GET', '/api/v1/policies/newest')).live;
      expect(await live()).toBe(1);
      await row(page, 'Version 2').getByRole('button', { name: 'Make it live' }).click();
      await row(page, 'Version 1').getByRole('button', { name: 'Roll back to it' }).waitFor();
      expect(await live()).toBe(2);
      await row(page, 'Version 1').getByRole('button', { name: 'Roll back to it' }).click();
      await row(page, 'Version 2').getByRole('button', { name: 'Make it live' }).waitFor();
      expect(await live()).toBe(1);

      await row(page, 'Version 2').getByRole('button', { name: /Delete/ }).click();
      const confirm = page.getByRole('dialog').getByRole('button', { name: 'Delete it' });
      await page.getByLabel(/Type/).fill('newest');
      expect(await confirm.isDisabled()).toBe(true);
      await page.getByLabel(/Type/).fill('newest@2');
      await confirm.click();
      await row(page, 'Version 2').waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Delete', exact: true }).click();
      await page.getByLabel(/Type/).fill('newest');
      await confirm.click();
      await page.waitForURL(/policies$/);
      await row(page, 'newest').waitFor({ state: 'detached' });
    });
    await expect(server.call('GET', '/api/v1/policies/newest')).rejects.toThrow(/404/);
  });

  test('a version is tried on a case and replayed over sessions, as the API says', async () => {
    await server.call('POST', `${p}/turns`, { session_id: 'polls', messages: [1, 2, 3].flatMap((n) => [{ role: 'user', content: `Poll ${n}`, tags: ['status'] }, { role: 'assistant', content: `Answer ${n}`, tags: ['status'] }]) });
    const told = await server.call('POST', `${policy}/versions/2/replay`, { project_id: 'shop', against: 'none' });
    expect(told.totals.changed_messages).toBeGreaterThan(0);
    await using(async (page) => {
      await visit(page, server, '/p/shop/sessions');
      await visit(page, server, '/policies/latest-only/v/2?view=run');
      await page.getByRole('button', { name: 'Run', exact: true }).last().click();
      await page.getByText('lawful window').waitFor();
      const fates = page.getByRole('region', { name: 'What happened to each message' });
      expect(await fates.locator('tbody tr').count()).toBe(3);
      await fates.getByText('dropped').waitFor();
      await picture(page, 'policy-ran');
      await page.getByRole('button', { name: 'Replay', exact: true }).first().click();
      await page.getByLabel('Against').selectOption('none');
      await page.locator('form').getByRole('button', { name: 'Replay' }).click();
      const sessions = page.getByRole('region', { name: 'Sessions' });
      await sessions.waitFor();
      await page.locator('.figures div', { hasText: 'treated differently' }).getByText(String(told.totals.changed_messages), { exact: true }).waitFor();
      expect(await row(page, 'polls').locator('.number').last().textContent()).toBe(String(told.sessions.find((s: any) => s.session_id === 'polls').changed_messages));
      await picture(page, 'policy-replayed');
    });
  });

  test('the way to a version and its run needs no pointer', async () => {
    await using(async (page) => {
      await visit(page, server, '/');
      await page.keyboard.press('g');
      await page.keyboard.press('p');
      await page.waitForURL(/policies$/);
      await settled(page);
      await tabTo(page, /^latest-only/);
      await page.keyboard.press('Enter');
      await page.waitForURL(/policies\/latest-only$/);
      await settled(page);
      await tabTo(page, /^Version 2/);
      await page.keyboard.press('Enter');
      await page.waitForURL(/v\/2/);
      await settled(page);
      await tabTo(page, /^Run$/);
      await page.keyboard.press('Enter');
      await tabTo(page, /^A decision|^Decision/);
      await page.keyboard.press('Enter');
      await page.getByText('lawful window').waitFor();
      await tabTo(page, /^Make it live/);
      await page.keyboard.press('Enter');
      await expect.poll(async () => (await server.call('GET', policy)).live).toBe(2);
      await tabTo(page, /^Roll back to it/);
      await page.keyboard.press('Enter');
      await expect.poll(async () => (await server.call('GET', policy)).live).toBe(1);
    });
  });
});

describe('boards', () => {
  test('a post of a program appears, and what is written here reaches the board', async () => {
    await using(async (page) => {
      await visit(page, server, '/');
      await page.keyboard.press('g');
      await page.keyboard.press('b');
      await page.waitForURL(/boards$/);
      await settled(page);
      await tabTo(page, /^The desk/);
      await page.keyboard.press('Enter');
      await page.getByText('● live').waitFor();
      await server.call('POST', '/api/v1/boards/desk/memory', { content: 'The van has left.', source: 'walt' });
      await page.getByText('The van has left.').waitFor();
      await tabTo(page, /^A chat message/);
      await page.keyboard.type('/resume');
      await page.keyboard.press('Enter');
      await page.locator('.timeline').getByText('/resume', { exact: true }).waitFor();
      await page.locator('.banner').waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Pause' }).click();
      await server.call('POST', '/api/v1/boards/desk/memory', { content: 'It comes back at six.', source: 'walt' });
      await page.getByRole('button', { name: 'Go on' }).click();
      await page.getByText('It comes back at six.').waitFor();
      await page.getByLabel('Words').fill('van');
      await page.waitForURL(/q=van/);
      await settled(page);
      expect(await page.getByText('It comes back at six.').count()).toBe(0);
      await page.getByText('The van has left.').waitFor();
    });
    expect((await server.call('GET', '/api/v1/boards/desk/memory?limit=10')).items.some((e: any) => e.content === '/resume')).toBe(true);
  });
});

describe('settings', () => {
  const read = () => server.call('GET', `${p}/settings`);

  test('only what differs is saved, and the history says who set what', async () => {
    const before = await read();
    await using(async (page) => {
      await visit(page, server, '/p/shop/settings');
      expect(await page.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
      await page.locator('#set-history_max_messages').fill('40');
      await page.keyboard.press('Tab');
      await page.locator('#set-summary_mode').selectOption('wait');
      await page.getByRole('button', { name: 'Move tool-result-clear up' }).click();
      await page.getByText('3 changed').waitFor();
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Saved.').waitFor();
      const newest = page.getByRole('region', { name: 'Settings history' }).locator('li').first();
      await newest.getByText('history_max_messages').waitFor();
      expect(await newest.locator('.changes').textContent()).toContain('→ 40');
      // What the server refuses is told with the setting that it names, and stays to be mended.
      await page.locator('#set-session_history_depth').fill('101');
      await page.keyboard.press('Tab');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('alert').waitFor();
      await page.locator('form li code', { hasText: 'session_history_depth' }).waitFor();
      await page.getByRole('button', { name: 'Discard' }).click();
      expect(await page.locator('#set-session_history_depth').inputValue()).toBe('20');
    });
    const after = await read();
    expect(after).toEqual({ ...before, history_max_messages: 40, summary_mode: 'wait', pipeline: [before.pipeline[1], before.pipeline[0], ...before.pipeline.slice(2)] });
  });

  test('what someone else set meanwhile is shown and not lost', async () => {
    await server.call('PATCH', `${p}/settings`, { history_max_tokens: 9000, history_max_messages: 60 });
    await using(async (page) => {
      await visit(page, server, '/p/shop/settings');
      await page.locator('#set-history_max_messages').fill('70');
      await page.keyboard.press('Tab');
      await server.call('PATCH', `${p}/settings`, { history_max_tokens: 5000 });
      await page.getByRole('button', { name: 'Save' }).click();
      const told = page.getByRole('alert');
      await told.getByText('someone else changed the settings').waitFor();
      expect(await told.locator('.changes').textContent()).toBe('history_max_tokens 9000 → 5000');
      expect((await read()).history_max_messages).toBe(60);
      expect(await page.locator('#set-history_max_tokens').inputValue()).toBe('5000');
      expect(await page.locator('#set-history_max_messages').inputValue()).toBe('70');
      await told.scrollIntoViewIfNeeded();
      await picture(page, 'settings-overtaken');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Saved.').waitFor();
      expect(await page.getByRole('alert').count()).toBe(0);
      await picture(page, 'settings-saved');
    });
    expect(await read()).toMatchObject({ history_max_tokens: 5000, history_max_messages: 70 });
  });
});

describe('administration', () => {
  test('a key is made, rotated and deleted by its name', async () => {
    await using(async (page) => {
      await visit(page, server, '/admin/keys');
      await page.getByRole('button', { name: 'New key' }).click();
      await page.getByLabel('Its name').fill('night shift');
      await page.getByLabel('Its role').selectOption('reader');
      await page.getByLabel('What it reaches').selectOption('shop');
      await page.getByLabel(/Valid for days/).fill('30');
      await page.getByRole('button', { name: 'Make it' }).click();
      const secret = page.getByRole('dialog').locator('pre');
      const first = (await secret.textContent())!;
      expect(await server.call('GET', '/api/v1/whoami', undefined, first)).toMatchObject({ role: 'reader' });
      await picture(page, 'key-made');
      await page.getByRole('button', { name: 'I have it' }).click();
      await row(page, 'night shift').getByRole('button', { name: /Rotate/ }).click();
      const second = (await secret.textContent())!;
      expect(second).not.toBe(first);
      await server.call('GET', '/api/v1/whoami', undefined, second);
      await page.getByRole('button', { name: 'I have it' }).click();
      expect(await page.content()).not.toContain(second);
      await row(page, 'night shift').getByRole('button', { name: /Delete/ }).click();
      const confirm = page.getByRole('dialog').getByRole('button', { name: 'Delete it' });
      expect(await confirm.isDisabled()).toBe(true);
      await page.getByLabel(/Type/).fill('night shift');
      await confirm.click();
      await row(page, 'night shift').waitFor({ state: 'detached' });
      await expect(server.call('GET', '/api/v1/whoami', undefined, second)).rejects.toThrow(/401/);
      await page.getByRole('button', { name: 'Audit log' }).click();
      await page.getByRole('region', { name: 'Changes' }).waitFor();
      expect(await page.locator('tbody tr').count()).toBeGreaterThan(3);
    });
  });

  test('a purge counts first, needs the typed name, and deletes what it counted', async () => {
    await server.call('PUT', '/api/v1/projects/old', { name: 'Old' });
    for (const id of ['a', 'b']) await server.call('POST', '/api/v1/projects/old/turns', { session_id: id, messages: [{ role: 'user', content: 'Hello' }, { role: 'assistant', content: 'Good day' }] });
    const kept = async () => (await server.call('GET', '/api/v1/projects/old/sessions')).data.length;
    await using(async (page) => {
      await visit(page, server, '/p/old/sessions');
      await visit(page, server, '/admin/retention');
      await page.getByText('2 conversations', { exact: false }).first().waitFor();
      await page.getByLabel(/without a turn for/).fill('0');
      await page.keyboard.press('Enter');
      await page.getByText('2 conversations would be deleted.').waitFor();
      expect(await kept()).toBe(2);
      await page.getByRole('button', { name: 'Delete them permanently' }).click();
      await page.keyboard.type('Old');
      expect(await page.getByRole('button', { name: 'Delete them', exact: true }).isDisabled()).toBe(true);
      await page.keyboard.press('Control+a');
      await page.keyboard.type('old');
      await picture(page, 'purge');
      await page.keyboard.press('Enter');
      await page.getByText('2 conversations deleted.').waitFor();
      await page.getByRole('button', { name: 'Delete expired data now' }).click();
      await page.getByText(/removed/).waitFor();
    });
    expect(await kept()).toBe(0);
  });
});

describe('usage', () => {
  test('says what the API says, by day and by hour', async () => {
    await using(async (page) => {
      for (const [bucket, name] of [['day', '30 days'], ['hour', '24 hours']]) {
        const { total } = await server.call('GET', `/api/v1/projects/shop/stats?bucket=${bucket}`);
        expect(total.windows).toBeGreaterThan(10);
        await visit(page, server, '/p/shop/usage');
        await page.getByRole('button', { name }).click();
        await settled(page);
        const figure = (title: string) => page.locator('.figures div', { hasText: title }).first().locator('dd').innerText();
        expect(await figure('Turns')).toBe(new Intl.NumberFormat('en').format(total.turns));
        expect(await figure('Windows')).toBe(new Intl.NumberFormat('en').format(total.windows));
        expect(await figure('Cached prefix')).toContain(`${Math.round((100 * total.prefix_tokens) / total.tokens_in)}%`);
        const rows = await page.locator('tbody tr td:nth-child(4)').allInnerTexts();
        expect(rows.map((n) => Number(n.replaceAll(',', ''))).reduce((a, b) => a + b, 0)).toBe(total.windows);
      }
    });
  });
});

describe('the operator', () => {
  test('makes a tenant, works in it and deletes it', async () => {
    const served = await Server.start('--console-root');
    const watched = await open(browser, served);
    try {
      const { page } = watched;
      await page.goto(served.url + '/console/');
      await page.getByLabel('API key').fill(rootKey);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await row(page, 'default').waitFor();
      expect(await page.getByRole('link', { name: 'Sessions' }).count()).toBe(0);
      await page.getByRole('button', { name: 'New tenant' }).click();
      await page.getByLabel('Its id, which stays').fill('acme');
      await page.getByLabel('Its name').fill('Acme & sons');
      await page.getByRole('button', { name: 'Make it' }).click();
      const key = await page.locator('pre.raw').innerText();
      const told = await fetch(served.url + '/api/v1/whoami', { headers: { Authorization: 'Bearer ' + key } });
      expect(await told.json()).toMatchObject({ tenant: 'acme', role: 'tenant_admin' });
      await page.getByRole('button', { name: 'I have it' }).click();
      await served.call('PUT', '/api/v1/projects/parts', {}, key);
      await row(page, 'acme').getByRole('button', { name: /^Work in it/ }).click();
      await page.getByRole('heading', { name: 'parts' }).waitFor();
      await page.getByRole('button', { name: 'New project' }).click();
      await page.getByLabel('Its id').fill('more');
      await page.getByRole('button', { name: 'Make it' }).click();
      await page.getByRole('heading', { name: 'more' }).waitFor();
      await page.getByRole('link', { name: 'Administration' }).click();
      await page.getByText('Tenant acme').waitFor();
      await page.getByRole('button', { name: 'Tenants', exact: true }).click();
      await row(page, 'acme').getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('textbox').fill('acme');
      await page.getByRole('button', { name: 'Delete it' }).click();
      await expect.poll(() => row(page, 'acme').count()).toBe(0);
      await picture(page, 'tenants');
      expect((await fetch(served.url + '/api/v1/whoami', { headers: { Authorization: 'Bearer ' + key } })).status).toBe(401);
      expect(watched.troubles).toEqual([]);
    } finally {
      await watched.context.close();
      await served.stop();
    }
  });
});

describe('roles', () => {
  const screens = ['/policies', '/policies/latest-only', '/boards/desk', '/p/shop/settings', '/admin/keys', '/admin/retention'];
  const writing = ['Upload a module', 'Upload a version', 'Make it live', 'Delete', 'Delete version 2', 'Run', 'Replay', 'Post', 'Save', 'New key', 'Rotate desk', 'Count them'];
  for (const [role, allowed] of Object.entries({ reader: [], agent: ['Post'], tenant_admin: writing })) {
    test(`${role}: sees the buttons that it may press, and no other`, async () => {
      const made = await server.call('POST', '/api/v1/keys', { name: `${role} to look`, role });
      await using(async (page) => {
        const found = new Set<string>();
        for (const path of screens) {
          await visit(page, server, path);
          for (const name of writing) if (await page.getByRole('main').getByRole('button', { name, exact: true }).count()) found.add(name);
          // A field is closed where nothing that is written into it can be saved.
          if (path.endsWith('settings')) expect(await page.locator('#set-history_max_tokens').isDisabled()).toBe(role !== 'tenant_admin');
        }
        expect([...found].sort()).toEqual([...allowed].sort());
      }, made.key);
    });
  }
});

describe('focus', () => {
  test('is seen on each control of these screens', async () => {
    await using(async (page) => {
      for (const path of ['/policies/latest-only/v/2?view=run', '/boards/desk', '/p/shop/settings', '/admin/keys', '/admin/retention']) {
        await visit(page, server, path);
        const controls = await page.locator('main').locator('a[href], button:enabled, input:enabled, select:enabled, textarea, summary, [tabindex="0"]').filter({ visible: true }).count();
        const reached = await page.evaluate(() => (document.querySelector('main') as HTMLElement).focus()).then(async () => {
          const names: string[] = [];
          for (let i = 0; i < controls; i++) {
            await page.keyboard.press('Tab');
            const at = await page.evaluate(() => {
              const e = document.activeElement as HTMLElement;
              const style = getComputedStyle(e);
              return { inside: !!e.closest('main'), name: e.outerHTML.slice(0, 120), seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 };
            });
            if (!at.inside) break;
            expect(at.seen, `${path}: ${at.name}`).toBe(true);
            names.push(at.name);
          }
          return names.length;
        });
        expect(reached, `${path}: of ${controls} controls`).toBe(controls);
      }
    });
  });
});

describe('the first start', () => {
  test('leads from the printed link to an X-ray', async () => {
    const began = Date.now();
    const demo = await Server.start('--demo');
    const listening = Date.now();
    const watched = await open(browser, demo, { colorScheme: 'light', viewport: { width: 1280, height: 780 } });
    try {
      const { page } = watched;
      await page.goto(demo.link);
      await page.getByRole('link', { name: 'Demo' }).first().click();
      await page.getByRole('link', { name: 'order-17-help' }).first().click();
      await settled(page);
      await page.keyboard.press('x');
      await page.getByText('replay equal ✓').waitFor();
      console.log(`from start to the first X-ray: ${Date.now() - began} ms, of which ${listening - began} ms until the server listens`);
      // The picture of the README, once everything is there.
      await expect.poll(async () => (await demo.call('GET', '/api/v1/projects/demo')).name, { timeout: 60_000 }).toBe('Demo');
      await visit(page, demo, '/p/demo/s/order-17-help');
      await page.keyboard.press('x');
      await page.getByText('replay equal ✓').waitFor();
      await settled(page);
      await picture(page, 'first-xray');
      expect(watched.troubles).toEqual([]);
    } finally {
      await watched.context.close();
      await demo.stop();
    }
  });
});
