import { useEffect, useState } from 'preact/hooks';
import { signedOut } from './session';

/** One event of a stream, as Server-Sent Events write it. */
export interface StreamEvent {
  id: string;
  event: string;
  data: unknown;
}

export type StreamState = 'connecting' | 'live' | 'waiting' | 'ended';

/** Takes whole events off the front of a text; what is left of it comes with the next piece. */
export function takeEvents(text: string): { events: StreamEvent[]; rest: string } {
  const events: StreamEvent[] = [];
  let rest = text;
  for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
    const lines = rest.slice(0, end).split('\n');
    rest = rest.slice(end + 2);
    const field = (name: string) => lines.filter((l) => l.startsWith(name + ':')).map((l) => l.slice(name.length + 1).replace(/^ /, '')).join('\n');
    const data = field('data');
    if (data) events.push({ id: field('id'), event: field('event'), data: JSON.parse(data) });
  }
  return { events, rest };
}

/**
 * Follows a stream for as long as a component is shown, and goes on after the last event where it breaks off. It reads
 * with fetch, because an EventSource cannot send the header that the console's sign-in needs.
 */
export function useStream(path: string | undefined, onEvent: (event: StreamEvent) => void): StreamState {
  const [state, setState] = useState<StreamState>('connecting');
  useEffect(() => {
    if (!path) return setState('waiting');
    const stop = new AbortController();
    let last = '';
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = (wait: number) => {
      if (stop.signal.aborted) return;
      setState('waiting');
      timer = setTimeout(() => void follow(wait), wait);
    };
    const follow = async (waited: number) => {
      try {
        const answer = await fetch(path, { credentials: 'same-origin', headers: { 'X-Mneme-Console': '1', Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) }, signal: stop.signal });
        if (answer.status === 401) return signedOut();
        if (answer.status === 404) return setState('ended');
        if (!answer.ok || !answer.body) return again(Math.min(waited * 2 || 1000, 30_000));
        setState('live');
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        let text = '';
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          const taken = takeEvents(text + value);
          text = taken.rest;
          for (const event of taken.events) {
            if (event.id) last = event.id;
            onEvent(event);
          }
        }
        again(1000);
      } catch {
        again(Math.min(waited * 2 || 1000, 30_000));
      }
    };
    setState('connecting');
    void follow(0);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path]);
  return state;
}
