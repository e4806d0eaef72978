import { useLocation } from 'preact-iso';

/** The query of the URL. It contains everything that a screen shows, so that URLs can be shared. */
export function useQuery() {
  const { path, query, route } = useLocation();
  const set = (changes: Record<string, string | number | undefined | null>, keep = false) => {
    const next = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined || value === null || value === '') next.delete(name);
      else next.set(name, String(value));
    }
    const text = next.toString();
    route(path + (text ? '?' + text : ''), !keep);
  };
  return { query: query as Record<string, string | undefined>, set };
}

const e = encodeURIComponent;

/** URLs of the screens. */
export const to = {
  projects: () => '/console/',
  sessions: (p: string) => `/console/p/${e(p)}/sessions`,
  session: (p: string, s: string) => `/console/p/${e(p)}/s/${e(s)}`,
  xray: (p: string, s: string, d?: string) => `/console/p/${e(p)}/s/${e(s)}/x?d=${e(d ?? 'live')}`,
  lab: (p: string, s: string, d?: string) => `/console/p/${e(p)}/s/${e(s)}/lab?d=${e(d ?? 'live')}`,
  decisions: (p: string) => `/console/p/${e(p)}/decisions`,
  memories: (p: string) => `/console/p/${e(p)}/memories`,
  memory: (p: string, key: string, namespace: string[] = []) => `/console/p/${e(p)}/memories/${e(key)}` + (namespace.length ? '?ns=' + e(JSON.stringify(namespace)) : ''),
  recall: (p: string) => `/console/p/${e(p)}/recall`,
  usage: (p: string) => `/console/p/${e(p)}/usage`,
  settings: (p: string) => `/console/p/${e(p)}/settings`,
  policies: () => '/console/policies',
  policy: (name: string) => `/console/policies/${e(name)}`,
  policyVersion: (name: string, v: number) => `/console/policies/${e(name)}/v/${v}`,
  boards: () => '/console/boards',
  board: (b: string) => `/console/boards/${e(b)}`,
  admin: (page: string) => `/console/admin/${page}`,
};
