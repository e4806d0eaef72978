/** One Server-Sent Event. */
export interface ServerEvent {
  event: string;
  data: string;
  id: string;
}

/**
 * Reads events from the chunks of a stream, however it is split. EventSource cannot send a header, so its requests could
 * not be distinguished from those of another site.
 */
export function parser(onEvent: (e: ServerEvent) => void): (text: string) => void {
  let rest = '';
  let id = '';
  let event = '';
  let data: string[] = [];
  return (text) => {
    // A line may end with CR, LF or both. A CR at the very end may be followed by an LF, so wait for more.
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop()!;
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) onEvent({ event: event || 'message', data: data.join('\n'), id });
        event = '';
        data = [];
        continue;
      }
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') event = value;
      else if (field === 'data') data.push(value);
      else if (field === 'id' && !value.includes('\0')) id = value;
    }
  };
}

/** Follows a stream until the signal aborts it. If it breaks, it reconnects after the last event. */
export async function follow(path: string, signal: AbortSignal, on: { event: (e: ServerEvent) => void; open?: (open: boolean) => void; refused?: (status: number) => void }, pause = 1000): Promise<void> {
  let last = '';
  for (let wait = pause; !signal.aborted; wait = Math.min(wait * 2, 30_000)) {
    try {
      const response = await fetch(path, {
        credentials: 'same-origin',
        headers: { 'X-Mneme-Console': '1', Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) },
        signal,
      });
      if (!response.ok || !response.body) {
        // The server would refuse the same request again.
        if (response.status >= 400 && response.status < 500 && response.status !== 429) return on.refused?.(response.status);
        throw new Error(String(response.status));
      }
      on.open?.(true);
      wait = pause;
      const read = parser((e) => {
        if (e.id) last = e.id;
        on.event(e);
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) read(piece.value);
    } catch {}
    on.open?.(false);
    if (!signal.aborted) await new Promise((done) => setTimeout(done, wait));
  }
}
