import { createServer, type ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { follow, parser, type ServerEvent } from '../src/lib/sse';
import { random } from './random';

// However a stream is cut into pieces, its events are the same.
test('events do not depend on where the pieces end', () => {
  const stream = ': hello\r\n\r\nid: 1\nevent: turn\ndata: {"a":1}\n\ndata: two\ndata:  lines\n\nevent: empty\n\nid: 3\r\nevent: crlf\r\ndata: é🙂\r\n\r\nretry: 5\rdata: cr\r\rdata: unfinished';
  const read = (pieces: string[]) => {
    const found: ServerEvent[] = [];
    const put = parser((e) => found.push(e));
    pieces.forEach(put);
    return found;
  };
  const whole = read([stream]);
  expect(whole).toEqual([
    { id: '1', event: 'turn', data: '{"a":1}' }, { id: '1', event: 'message', data: 'two\n lines' },
    { id: '3', event: 'crlf', data: 'é🙂' }, { id: '3', event: 'message', data: 'cr' },
  ]);
  for (let seed = 1; seed <= 300; seed++) {
    const r = random(seed);
    const pieces: string[] = [];
    for (let at = 0; at < stream.length; ) {
      const n = 1 + r.below(9);
      pieces.push(stream.slice(at, at + n));
      at += n;
    }
    expect(read(pieces), `seed ${seed}`).toEqual(whole);
  }
});

test('a stream that breaks is taken up behind its last event; one that is refused is not asked again', async () => {
  const asked: (string | undefined)[] = [];
  const server = createServer((request, response: ServerResponse) => {
    asked.push(request.headers['last-event-id'] as string | undefined);
    if (asked.length === 4) return void response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write(`id: ${asked.length}\ndata: ${asked.length}\n\n`);
    response.end();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as { port: number };
  const got: string[] = [];
  let refused = 0;
  await follow(`http://127.0.0.1:${port}/`, new AbortController().signal, { event: (e) => got.push(e.data), refused: (status) => (refused = status) }, 1);
  server.close();
  expect(got).toEqual(['1', '2', '3']);
  expect(asked).toEqual([undefined, '1', '2', '3']);
  expect(refused).toBe(404);
});
