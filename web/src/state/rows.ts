import { useRef } from 'preact/hooks';
import { useCommands, type Command } from './keys';

/**
 * Makes j and k move over the rows of a table: the focus moves between links of the class row-link. `more` are commands
 * for the focused row, whose index they get; -1 if none has the focus.
 */
export function useRows(group: string, one: string, more: (at: () => number) => Command[] = () => []) {
  const body = useRef<HTMLTableSectionElement>(null);
  const links = () => [...(body.current?.querySelectorAll<HTMLAnchorElement>('a.row-link') ?? [])];
  const at = () => links().findIndex((link) => link === document.activeElement);
  const move = (by: number) => {
    const all = links();
    all[Math.max(0, Math.min(all.length - 1, at() + by))]?.focus();
  };
  useCommands([
    { keys: 'j', label: `Next ${one}`, group, run: () => move(1) },
    { keys: 'k', label: `Previous ${one}`, group, run: () => move(-1) },
    ...more(at),
  ]);
  return body;
}
