import { useLocation } from 'preact-iso';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, take } from '../api/client';
import { commands, type Command } from '../state/keys';
import { useProjects } from '../state/projects';
import { to } from '../state/query';
import { shortcuts } from '../state/stored';
import { Dialog } from './basic';
import { Hostile } from './text';

/** How well a name matches what was typed: it contains all letters in order; closer together and earlier is better. */
function fits(name: string, typed: string): number {
  const lower = name.toLowerCase();
  const whole = lower.indexOf(typed);
  if (whole >= 0) return 1000 - whole;
  let at = -1;
  let gaps = 0;
  for (const letter of typed) {
    const next = lower.indexOf(letter, at + 1);
    if (next < 0) return 0;
    gaps += next - at - 1;
    at = next;
  }
  return Math.max(1, 500 - gaps);
}

/** The command palette: opens any screen and runs any command by typing a part of its name. */
export function Palette({ onClose }: { onClose: () => void }) {
  const { route } = useLocation();
  const { projects, project } = useProjects();
  const [typed, setTyped] = useState('');
  const [at, setAt] = useState(0);
  const [sessions, setSessions] = useState<Command[]>([]);
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    const controller = new AbortController();
    take(api.GET('/api/v1/projects/{project}/sessions', { params: { path: { project }, query: { limit: 200 } }, signal: controller.signal }))
      .then((page) => setSessions(page.data.map((s) => ({ label: s.title ? `${s.id} · ${s.title}` : s.id, group: 'Sessions', run: () => route(to.session(project, s.id)) }))))
      .catch(() => {});
    return () => controller.abort();
  }, [project]);
  const all: Command[] = useMemo(
    () => [...commands.peek(), ...sessions, ...(projects ?? []).map((p) => ({ label: p.id, group: 'Projects', run: () => route(to.sessions(p.id)) }))],
    [sessions, projects],
  );
  const words = typed.trim().toLowerCase();
  const found = useMemo(() => {
    if (!words) return all.slice(0, 60);
    return all
      .map((c) => ({ c, fit: fits(`${c.label} ${c.group}`, words) }))
      .filter((x) => x.fit > 0)
      .sort((x, y) => y.fit - x.fit)
      .slice(0, 60)
      .map((x) => x.c);
  }, [all, words]);
  const choose = (c: Command | undefined) => {
    if (!c) return;
    onClose();
    c.run();
  };
  const press = (e: KeyboardEvent) => {
    const by = e.key === 'ArrowDown' ? 1 : e.key === 'ArrowUp' ? -1 : 0;
    if (by) {
      e.preventDefault();
      const next = Math.max(0, Math.min(found.length - 1, at + by));
      setAt(next);
      list.current?.children[next]?.scrollIntoView({ block: 'nearest' });
    } else if (e.key === 'Enter') {
      e.preventDefault();
      choose(found[at]);
    }
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        class="palette-input"
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found[at] ? `palette-${at}` : undefined}
        aria-label="A page, a session or an action"
        placeholder="A page, a session or an action"
        autoFocus
        value={typed}
        onKeyDown={press}
        onInput={(e) => {
          setTyped(e.currentTarget.value);
          setAt(0);
        }}
      />
      <ul id="palette-list" class="palette" role="listbox" aria-label="Found" ref={list}>
        {found.map((c, i) => (
          <li key={`${c.group} ${c.label}`} id={`palette-${i}`} role="option" aria-selected={i === at} onMouseMove={() => setAt(i)} onClick={() => choose(c)}>
            <span class="muted">{c.group}</span>
            <span class="label"><Hostile text={c.label} /></span>
            {c.keys && <kbd>{c.keys}</kbd>}
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="nothing">No matches.</p>}
    </Dialog>
  );
}

/** The keyboard shortcuts of this screen, and a switch to turn them off. */
export function HelpKeys({ onClose }: { onClose: () => void }) {
  const groups = new Map<string, Command[]>();
  for (const c of commands.value) if (c.keys) groups.set(c.group, [...(groups.get(c.group) ?? []), c]);
  return (
    <Dialog title="Keys" onClose={onClose}>
      <label class="check">
        <input type="checkbox" checked={shortcuts.value === 'on'} onChange={(e) => (shortcuts.value = e.currentTarget.checked ? 'on' : 'off')} /> Use single keys
      </label>
      {[...groups].map(([name, list]) => (
        <section key={name}>
          <h3>{name}</h3>
          <dl class="keys">
            {list.map((c) => (
              <div key={c.keys}>
                <dt><kbd>{c.keys}</kbd></dt>
                <dd>{c.label}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <p class="muted"><kbd>Ctrl K</kbd> opens the list of everything. <kbd>Esc</kbd> closes what is open.</p>
    </Dialog>
  );
}
