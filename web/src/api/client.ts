import createClient from 'openapi-fetch';
import type { components, paths } from './schema';
import { inTenant, signedOut } from '../state/session';

export type Schemas = components['schemas'];
export type Problem = Schemas['Problem'];

// The session's cookie is accepted only with this header, which no other site can send.
const consoleHeaders = { 'X-Mneme-Console': '1' };

/** The public API. The console uses no other. */
export const api = createClient<paths>({ headers: consoleHeaders, credentials: 'same-origin' });

api.use({
  // Requests that name no tenant use the selected one.
  async onRequest({ request }) {
    const chosen = inTenant(request.url);
    if (chosen === request.url || new URL(request.url).searchParams.has('tenant')) return undefined;
    // A request made from another request streams its body, which browsers do not allow over HTTP/1.1.
    const { method, headers, credentials, signal } = request;
    return new Request(chosen, { method, headers, credentials, signal, body: request.body ? await request.arrayBuffer() : undefined });
  },
  onResponse({ response }) {
    if (response.status === 401) signedOut();
  },
});

/** A request that the server refused, or that never reached it. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly problem: Partial<Problem>,
  ) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
  }
}

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** Returns the response of a request, or throws a Failure with the server's error. */
export async function take<T>(request: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await request;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Failure(0, { title: 'The server cannot be reached', detail: String(error) });
  }
  if (!answer.response.ok) throw new Failure(answer.response.status, (answer.error ?? {}) as Partial<Problem>);
  return answer.data as T;
}

/** Returns the response of a request with its ETag. A compressing proxy makes the tag weak; it still means the same. */
export async function takeTagged<T>(request: Promise<Answer<T>>): Promise<{ data: T; tag?: string }> {
  const data = await take(request);
  return { data, tag: (await request).response.headers.get('ETag')?.replace(/^W\//, '') };
}

export type Page<T> = { data: T[]; has_more: boolean; next_cursor?: string | null };

/** Reads pages until there are `most` rows, or no more. */
export async function pages<T>(most: number, page: (cursor?: string) => Promise<Page<T>>): Promise<T[]> {
  const rows: T[] = [];
  let cursor: string | undefined;
  do {
    const next = await page(cursor);
    rows.push(...next.data);
    cursor = next.has_more ? (next.next_cursor ?? undefined) : undefined;
  } while (cursor && rows.length < most);
  return rows;
}

/** A request to a path outside of the API: the console's own sign-in. */
export async function post(path: string, body: unknown, method = 'POST'): Promise<void> {
  const response = await fetch(path, {
    method,
    credentials: 'same-origin',
    headers: { ...consoleHeaders, 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw new Failure(response.status, (await response.json().catch(() => ({}))) as Partial<Problem>);
}
