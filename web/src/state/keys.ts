import { computed, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { shortcuts } from './stored';

/** A keyboard command: "f", or a sequence such as "g s". The palette and the list of shortcuts show them. */
export interface Command {
  keys?: string;
  label: string;
  group: string;
  run: () => void;
}

const lists = signal<Command[][]>([]);

/** All commands of this screen, the newest list first. */
export const commands = computed(() => lists.value.flat());

/** Registers commands while a component is shown. */
export function useCommands(list: Command[]) {
  const latest = useRef(list);
  latest.current = list;
  const shape = list.map((c) => `${c.keys}\u0000${c.label}`).join('\u0001');
  useEffect(() => {
    const own = latest.current.map((c, i) => ({ ...c, run: () => latest.current[i]?.run() }));
    lists.value = [own, ...lists.value];
    return () => {
      lists.value = lists.value.filter((l) => l !== own);
    };
  }, [shape]);
}

const typing = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** Turns key presses into commands. A sequence is forgotten after a second. */
export function listen(onPalette: () => void): () => void {
  let before = '';
  let at = 0;
  const press = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      onPalette();
      return;
    }
    if (shortcuts.peek() === 'off' || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (typing(event.target) || document.querySelector('dialog[open]')) return;
    if (event.key === 'Enter' && event.target instanceof HTMLElement && event.target.closest('a, button, summary')) return;
    const key = event.key === 'Enter' ? 'enter' : event.key;
    const sequence = event.timeStamp - at < 1000 && before ? `${before} ${key}` : key;
    const list = commands.peek();
    const found = list.find((c) => c.keys === sequence) ?? list.find((c) => c.keys === key);
    before = list.some((c) => c.keys?.startsWith(sequence + ' ')) ? sequence : '';
    at = event.timeStamp;
    if (found) {
      event.preventDefault();
      before = '';
      found.run();
    }
  };
  addEventListener('keydown', press);
  return () => removeEventListener('keydown', press);
}
