import { useLocation } from 'preact-iso';
import { useState } from 'preact/hooks';
import { signOut } from '../screens/signin';
import { useProjects } from '../state/projects';
import { to } from '../state/query';
import { mayAdminister, who } from '../state/session';
import { theme, type Theme } from '../state/stored';

/** The navigation: the project, its pages, and the pages of the whole tenant. */
export function Nav({ onPalette, onHelp }: { onPalette: () => void; onHelp: () => void }) {
  const { path, route } = useLocation();
  const { projects, project } = useProjects();
  const [open, setOpen] = useState(false);
  const tenant = who.value?.tenant;
  const link = (href: string, name: string, key?: string, under = href) => (
    <li>
      <a href={href} aria-current={path === href || path.startsWith(under + '/') ? 'page' : undefined} onClick={() => setOpen(false)}>
        {name}
        {key && <kbd aria-hidden="true">{key}</kbd>}
      </a>
    </li>
  );
  const next: Record<Theme, Theme> = { system: 'dark', dark: 'light', light: 'system' };
  return (
    <header class={open ? 'nav open' : 'nav'}>
      <div class="brand">
        <a href={to.projects()} aria-label="Mneme, all projects">
          <svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" /><path d="M8 9h16M8 16h10M8 23h13" /></svg>
          <b>Mneme</b>
        </a>
        <button type="button" class="menu" aria-expanded={open} aria-controls="pages" onClick={() => setOpen(!open)}>
          Menu
        </button>
      </div>
      <nav id="pages" aria-label="Pages">
        <button type="button" class="search" onClick={onPalette}>
          Go to… <kbd>Ctrl K</kbd>
        </button>
        {tenant && (
          <>
            <label class="project">
              <span>Project</span>
              <select value={project} onChange={(e) => route(to.sessions(e.currentTarget.value))}>
                {!projects?.some((p) => p.id === project) && <option value={project}>{project}</option>}
                {projects?.map((p) => <option key={p.id} value={p.id}>{p.name || p.id}</option>)}
              </select>
            </label>
            <ul>
              {link(to.sessions(project), 'Sessions', 'g s', `/console/p/${encodeURIComponent(project)}/s`)}
              {link(to.decisions(project), 'Decisions', 'g d')}
              {link(to.memories(project), 'Memories', 'g m')}
              {link(to.recall(project), 'Recall', 'g r')}
              {link(to.usage(project), 'Usage', 'g u')}
              {link(to.settings(project), 'Settings', 'g e')}
            </ul>
          </>
        )}
        <h2>{tenant ? 'Tenant' : 'Server'}</h2>
        <ul>
          {tenant && link(to.projects(), 'Projects', 'g h', '/console/none')}
          {tenant && link(to.policies(), 'Policies', 'g p')}
          {tenant && link(to.boards(), 'Boards', 'g b')}
          {mayAdminister.value && link(to.admin(tenant ? 'keys' : 'tenants'), 'Administration', undefined, '/console/admin')}
        </ul>
        <div class="foot">
          <p class="who">
            <b>{tenant ?? 'operator'}</b> {who.value?.role.replace('_', ' ')}
          </p>
          <button type="button" class="quiet" onClick={() => (theme.value = next[theme.value])}>
            <span class="sr">Theme: </span>
            {theme.value === 'dark' ? '☾ Dark' : theme.value === 'light' ? '☀ Light' : '◐ Auto'}
          </button>
          <button type="button" class="quiet" onClick={onHelp}>Keys <kbd aria-hidden="true">?</kbd></button>
          <button type="button" class="quiet" onClick={() => void signOut()}>Sign out</button>
        </div>
      </nav>
    </header>
  );
}
