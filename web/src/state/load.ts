import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Failure } from '../api/client';

export interface Loaded<T> {
  data?: T;
  error?: Failure;
  loading: boolean;
  reload: () => void;
}

/**
 * Loads what a screen shows, again whenever a dependency changes. The former data stays until the new is there, so that
 * nothing flickers; a request that was overtaken is aborted.
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
