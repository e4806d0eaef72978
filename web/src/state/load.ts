import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Failure, type Page } from '../api/client';

export interface Loaded<T> {
  data?: T;
  error?: Failure;
  loading: boolean;
  reload: () => void;
}

/**
 * Loads what a screen shows, and reloads it whenever a dependency changes. The old data is shown until the new data has
 * arrived, so that nothing flickers; outdated requests are aborted.
 */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, dependencies: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ data?: T; error?: Failure; loading: boolean }>({ loading: true });
  const [again, setAgain] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const controller = new AbortController();
    setState((s) => ({ data: s.data, loading: true }));
    latest.current(controller.signal).then(
      (data) => controller.signal.aborted || setState({ data, loading: false }),
      (error: unknown) => {
        if (controller.signal.aborted) return;
        const failure = error instanceof Failure ? error : new Failure(0, { detail: String(error) });
        setState((s) => ({ data: s.data, error: failure, loading: false }));
      },
    );
    return () => controller.abort();
  }, [...dependencies, again]);
  return { ...state, reload: useCallback(() => setAgain((n) => n + 1), []) };
}

export interface Paged<T> {
  rows: T[];
  /** The first page has been loaded. */
  loaded: boolean;
  loading: boolean;
  error?: Failure;
  /** Loads the next page; undefined if there is none. */
  next?: () => Promise<void>;
  reload: () => void;
}

/** Loads a list page by page. It starts again whenever a dependency changes. */
export function usePages<T>(page: (cursor?: string, signal?: AbortSignal) => Promise<Page<T>>, dependencies: unknown[]): Paged<T> {
  const first = useLoad((signal) => page(undefined, signal), dependencies);
  const [more, setMore] = useState<{ rows: T[]; last: Page<T>; behind?: Page<T> }>();
  const [trouble, setTrouble] = useState<{ failure: Failure; behind?: Page<T> }>();
  const extra = more?.behind === first.data ? more : undefined;
  const last = extra?.last ?? first.data;
  const cursor = last?.has_more ? (last.next_cursor ?? undefined) : undefined;
  const next = async () => {
    try {
      const found = await page(cursor);
      setMore({ rows: [...(extra?.rows ?? []), ...found.data], last: found, behind: first.data });
    } catch (failure) {
      setTrouble({ failure: failure as Failure, behind: first.data });
    }
  };
  return {
    rows: [...(first.data?.data ?? []), ...(extra?.rows ?? [])],
    loaded: !!first.data,
    loading: first.loading,
    error: first.error ?? (trouble?.behind === first.data ? trouble?.failure : undefined),
    next: cursor ? next : undefined,
    reload: first.reload,
  };
}
