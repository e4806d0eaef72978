import { effect, signal } from '@preact/signals';
import { useLocation } from 'preact-iso';
import { api, pages, take, type Schemas } from '../api/client';
import { stored } from './stored';
import { who } from './session';

export const projects = signal<Schemas['Project'][] | undefined>(undefined);

/** The project that was shown last. */
const last = stored<string>('project', 'default');

export async function loadProjects(): Promise<void> {
  projects.value = await pages(1000, (cursor) => take(api.GET('/api/v1/projects', { params: { query: { limit: 1000, cursor } } })));
}

effect(() => {
  if (who.value?.tenant) loadProjects().catch(() => (projects.value ??= []));
});

/** The project in the URL, or the one that was shown last. */
export function useProjects() {
  const { path } = useLocation();
  const found = /^\/console\/p\/([^/]+)/.exec(path);
  const named = found ? decodeURIComponent(found[1]!) : undefined;
  if (named && named !== last.peek()) last.value = named;
  const list = projects.value;
  const known = !list || list.length === 0 || list.some((p) => p.id === last.value);
  return { projects: list, project: named ?? (known ? last.value : list[0]!.id) };
}
