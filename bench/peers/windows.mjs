// Makes the windows of Mastra's memory. It speaks the protocol of windows.py.
import { createInterface } from 'node:readline';
import { Memory } from '@mastra/memory';
import { TokenLimiter } from '@mastra/memory/processors';
import { LibSQLStore } from '@mastra/libsql';
import { MessageList } from '@mastra/core/agent';

const [name] = process.argv.slice(2);
const storage = new LibSQLStore({ url: ':memory:' });
const limited = name === 'mastra-limited';
let memory;
const known = new Set();
let made = 0;

// What an agent says in one turn is one message there, with calls and their results as its parts.
function convert(threadId, messages) {
  const out = [];
  for (const m of messages) {
    if (m.role === 'tool') continue;
    const parts = m.content ? [{ type: 'text', text: m.content }] : [];
    for (const call of m.tool_calls ?? []) {
      const result = messages.find((r) => r.tool_call_id === call.id)?.content;
      parts.push({ type: 'tool-invocation', toolInvocation: {
        state: 'result', toolCallId: call.id, toolName: call.function.name, args: JSON.parse(call.function.arguments || '{}'), result,
      } });
    }
    if (m.role === 'assistant' && out.at(-1)?.role === 'assistant') {
      out.at(-1).content.parts.push({ type: 'step-start' }, ...parts);
      continue;
    }
    made++;
    out.push({ id: 'm' + made, threadId, resourceId: 'bench', role: m.role, createdAt: new Date(1e12 + made), type: 'text',
      content: { format: 2, parts } });
  }
  return out;
}

// chat converts messages of the AI SDK to OpenAI's format.
function chat(messages) {
  const text = (content) => typeof content === 'string' ? content
    : content.filter((p) => p.type === 'text').map((p) => p.text).join('\n');
  return messages.flatMap((m) => {
    if (m.role === 'tool') {
      return m.content.map((p) => ({ role: 'tool', tool_call_id: p.toolCallId,
        content: typeof p.result === 'string' ? p.result : JSON.stringify(p.result ?? '') }));
    }
    const calls = Array.isArray(m.content) ? m.content.filter((p) => p.type === 'tool-call') : [];
    const out = { role: m.role, content: text(m.content) };
    if (calls.length > 0) {
      out.tool_calls = calls.map((p) => ({ id: p.toolCallId, type: 'function',
        function: { name: p.toolName, arguments: JSON.stringify(p.args) } }));
    }
    return [out];
  });
}

const peer = {
  async append({ session, messages }) {
    if (!known.has(session)) {
      known.add(session);
      await memory.createThread({ threadId: session, resourceId: 'bench' });
    }
    await memory.saveMessages({ messages: convert(session, messages), format: 'v2' });
    return [];
  },
  async window({ session, messages }) {
    let past = [];
    if (known.has(session)) {
      const { messages: remembered } = await memory.rememberMessages({ threadId: session, resourceId: 'bench' });
      const pending = new MessageList({ threadId: session, resourceId: 'bench' }).add(convert(session, messages), 'user');
      const processed = await memory.processMessages({ messages: remembered, newMessages: pending.get.all.v1() });
      past = new MessageList({ threadId: session, resourceId: 'bench' }).add(processed, 'memory').get.all.core();
    }
    return [...chat(past), ...messages];
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  memory ??= new Memory({ storage, processors: limited ? [new TokenLimiter(command.tokens)] : [], options: {
    lastMessages: limited ? command.limit : 10, semanticRecall: false, workingMemory: { enabled: false } } });
  console.log(JSON.stringify({ messages: await peer[command.do](command) }));
}
