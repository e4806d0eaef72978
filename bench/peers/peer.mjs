// Does for a peer in JavaScript what bench asks for, one JSON object a line, and answers each with the microseconds that
// the peer's own call took: {"us": wall time, "cpu": processor time of the process}. Reading and writing the lines is not timed.
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const [name, folder] = process.argv.slice(2);

// LangChain's trimMessages over messages in memory, with the counter that its Python calls approximate.
async function langchain() {
  const { coerceMessageLikeToMessage, trimMessages } = await import('@langchain/core/messages');
  const sessions = new Map();
  const size = (m) => Math.ceil((JSON.stringify(m.content).length + JSON.stringify(m.tool_calls ?? '').length) / 4) + 3;
  return {
    async append({ session, messages }) {
      if (!sessions.has(session)) sessions.set(session, []);
      sessions.get(session).push(...messages.map(coerceMessageLikeToMessage));
    },
    window: ({ session, tokens }) => trimMessages(sessions.get(session), {
      maxTokens: tokens, strategy: 'last', startOn: 'human', tokenCounter: (list) => list.reduce((n, m) => n + size(m), 0),
    }),
  };
}

// Mastra's memory over libsql in a file.
async function mastra() {
  const { Memory } = await import('@mastra/memory');
  const { LibSQLStore } = await import('@mastra/libsql');
  const storage = new LibSQLStore({ url: 'file:' + join(folder, 'mastra.db') });
  const memory = new Memory({ storage, options: { semanticRecall: false, workingMemory: { enabled: false } } });
  const known = new Set();
  let made = 0;
  // A call and its result are one part of the assistant's message there.
  const convert = (threadId, messages) => messages.filter((m) => m.role !== 'tool').map((m) => {
    const parts = m.content ? [{ type: 'text', text: m.content }] : [];
    for (const call of m.tool_calls ?? []) {
      const result = messages.find((r) => r.tool_call_id === call.id)?.content;
      parts.push({ type: 'tool-invocation', toolInvocation: {
        state: 'result', toolCallId: call.id, toolName: call.function.name, args: JSON.parse(call.function.arguments || '{}'), result,
      } });
    }
    made++;
    return { id: 'm' + made, threadId, resourceId: 'bench', role: m.role, createdAt: new Date(1e12 + made), type: 'text',
      content: { format: 2, parts } };
  });
  return {
    async append({ session, messages }) {
      if (!known.has(session)) {
        known.add(session);
        await memory.createThread({ threadId: session, resourceId: 'bench' });
      }
      await memory.saveMessages({ messages: convert(session, messages), format: 'v2' });
    },
    async window({ session, limit }) {
      return (await memory.query({ threadId: session, resourceId: 'bench', selectBy: { last: limit } })).messages;
    },
  };
}

const peer = await { langchain, mastra }[name]();
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const cpu = process.cpuUsage();
  const wall = process.hrtime.bigint();
  const result = await peer[command.do](command);
  const us = Number(process.hrtime.bigint() - wall) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  console.log(JSON.stringify({ us, cpu: user + system, found: result?.length ?? 0 }));
}
