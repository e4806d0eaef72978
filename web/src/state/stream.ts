import { useEffect, useRef, useState } from 'preact/hooks';
import { follow, type ServerEvent } from '../lib/sse';
import { inTenant, signedOut } from './session';

export type StreamState = 'connecting' | 'live' | 'waiting' | 'ended';

/** Follows a stream for as long as a component is shown and there is a path. */
export function useStream(path: string | undefined, onEvent: (event: ServerEvent) => void): StreamState {
  const [state, setState] = useState<StreamState>('connecting');
  const latest = useRef(onEvent);
  latest.current = onEvent;
  useEffect(() => {
    if (!path) return setState('waiting');
    const controller = new AbortController();
    setState('connecting');
    void follow(inTenant(path), controller.signal, {
      event: (e) => latest.current(e),
      open: (open) => controller.signal.aborted || setState(open ? 'live' : 'waiting'),
      refused: (status) => (status === 401 ? signedOut() : setState('ended')),
    });
    return () => controller.abort();
  }, [path]);
  return state;
}
