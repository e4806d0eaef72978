import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { Failure, post } from '../api/client';
import { Trouble } from '../components/basic';
import { expired, who, type Who } from '../state/session';

/**
 * Asks the server who is signed in. A sign-in link contains its token after the #, which browsers send to no server. The
 * token works once, and is removed from the URL before it is used. The operator may name the tenant to work in.
 */
export async function ask(tenant = ''): Promise<void> {
  const link = /^#link=(.+)$/.exec(location.hash)?.[1];
  if (link) {
    history.replaceState(null, '', location.pathname + location.search);
    await post('/console/session', { link: decodeURIComponent(link) }).catch((failure: Failure) => {
      stale.value = failure;
    });
  }
  const response = await fetch('/api/v1/whoami' + (tenant && '?tenant=' + encodeURIComponent(tenant)), { credentials: 'same-origin', headers: { 'X-Mneme-Console': '1' } });
  if (response.status === 401) {
    who.value = null;
    return;
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failure(response.status, body);
  who.value = body as Who;
}

/** Why a sign-in link did not work. */
const stale = signal<Failure | undefined>(undefined);

export async function signOut(): Promise<void> {
  await post('/console/session', undefined, 'DELETE').catch(() => {});
  expired.value = false;
  who.value = null;
}

/** The sign-in form. The key is sent once and never stored. */
export default function SignIn() {
  const [key, setKey] = useState('');
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const submit = async (e: Event) => {
    e.preventDefault();
    if (!key.trim()) return;
    setBusy(true);
    setError(undefined);
    try {
      await post('/console/session', { key: key.trim() });
      setKey('');
      expired.value = false;
      await ask();
    } catch (failure) {
      setError(failure as Failure);
    }
    setBusy(false);
  };
  return (
    <main class="alone signin">
      <svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" /><path d="M8 9h16M8 16h10M8 23h13" /></svg>
      <h1>Mneme</h1>
      <p class="lead">See what your model sees, and why.</p>
      {expired.value && <p class="banner" role="status">Your session has ended. Sign in again.</p>}
      <form onSubmit={submit}>
        <label>
          API key
          <input type="password" name="key" autocomplete="off" autoFocus required value={key} placeholder="mk_…" onInput={(e) => setKey(e.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={busy}>Sign in</button>
      </form>
      {(error ?? stale.value) && <Trouble error={(error ?? stale.value)!} />}
      <p class="muted">
        The server prints a sign-in link and a key when it first starts; <code>mneme console</code> prints another link. The key is exchanged for a
        cookie and is not kept in this browser.
      </p>
    </main>
  );
}
