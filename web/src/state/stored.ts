import { effect, signal, type Signal } from '@preact/signals';

/** A signal whose value is stored in this browser, or kept for the page if the browser stores nothing. */
export function stored<T extends string>(name: string, fallback: T): Signal<T> {
  let first = fallback;
  try {
    first = (localStorage.getItem('mneme.' + name) as T | null) ?? fallback;
  } catch {}
  const value = signal<T>(first);
  effect(() => {
    try {
      localStorage.setItem('mneme.' + name, value.value);
    } catch {}
  });
  return value;
}

export type Theme = 'system' | 'light' | 'dark';
export const theme = stored<Theme>('theme', 'system');

effect(() => {
  if (typeof document === 'undefined') return;
  if (theme.value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});

/** Single-letter shortcuts can be turned off, because speech input and some keyboards type them by accident. */
export const shortcuts = stored<'on' | 'off'>('shortcuts', 'on');
