import { computed, signal } from '@preact/signals';
import type { Schemas } from '../api/client';

/** Who is signed in, from GET /api/v1/whoami. */
export type Who = Schemas['Identity'];

/** undefined means not loaded yet; null means that nobody is signed in. */
export const who = signal<Who | null | undefined>(undefined);

/** Whether a sign-in ended while it was used. The sign-in page says so. */
export const expired = signal(false);

const ranks = { reader: 0, agent: 1, tenant_admin: 2, root: 3 };

/** Whether buttons that need a role are shown. The server checks it again. */
export const may = (role: keyof typeof ranks) => computed(() => !!who.value && ranks[who.value.role] >= ranks[role]);
export const mayWrite = may('agent');
export const mayAdminister = may('tenant_admin');
export const operates = may('root');

/** An API path in the tenant that the operator selected. Any other key belongs to one tenant. */
export const inTenant = (path: string) =>
  who.peek()?.role === 'root' && who.peek()?.tenant ? `${path}${path.includes('?') ? '&' : '?'}tenant=${encodeURIComponent(who.peek()!.tenant!)}` : path;

export function signedOut() {
  if (who.peek()) expired.value = true;
  who.value = null;
}
