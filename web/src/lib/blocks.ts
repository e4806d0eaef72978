/** One part of a message, whatever the provider's format calls it. */
export interface Block {
  kind: 'text' | 'call' | 'result' | 'thinking' | 'image' | 'file' | 'other';
  text: string;
  /** The tool that is called. */
  name?: string;
  /** Joins a call to its result. */
  id?: string;
  /** A result that reports an error. */
  error?: boolean;
}

/** A message in any format, as it is shown. */
export interface Shown {
  role: string;
  blocks: Block[];
}

type Value = Record<string, unknown>;

const isObject = (v: unknown): v is Value => typeof v === 'object' && v !== null && !Array.isArray(v);
const string = (v: unknown): string => (typeof v === 'string' ? v : '');

/** JSON formatted for people; other texts are not changed. */
export function pretty(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value, null, 2) ?? '';
  const first = value.trimStart()[0];
  if (first !== '{' && first !== '[') return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

/** The text of a string, a block or a list of blocks. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (Array.isArray(content)) return content.map(textOf).filter(Boolean).join('\n');
  if (isObject(content)) {
    if (typeof content.text === 'string') return content.text;
    if (typeof content.refusal === 'string') return content.refusal;
    return `[${string(content.type) || 'part'}]`;
  }
  return '';
}

function part(p: unknown): Block {
  if (typeof p === 'string') return { kind: 'text', text: p };
  if (!isObject(p)) return { kind: 'other', text: pretty(p) };
  switch (p.type) {
    case 'text':
    case 'input_text':
    case 'output_text':
    case 'summary_text':
      return { kind: 'text', text: string(p.text) };
    case 'refusal':
      return { kind: 'text', text: string(p.refusal) };
    case 'tool_use':
    case 'server_tool_use':
      return { kind: 'call', name: string(p.name), id: string(p.id), text: pretty(p.input) };
    case 'tool_result':
      return { kind: 'result', id: string(p.tool_use_id), text: textOf(p.content), error: p.is_error === true };
    case 'thinking':
      return { kind: 'thinking', text: string(p.thinking) };
    case 'redacted_thinking':
      return { kind: 'thinking', text: '[redacted]' };
    case 'image':
    case 'image_url':
    case 'input_image':
      return { kind: 'image', text: source(p) };
    case 'document':
    case 'file':
    case 'input_file':
    case 'input_audio':
      return { kind: 'file', text: source(p) };
    default:
      return { kind: 'other', text: pretty(p) };
  }
}

/** The source of a picture or a file. Nothing is ever loaded from it. */
function source(p: Value): string {
  const inner = [p.source, p.image_url, p.file, p.input_audio].find((v) => v !== undefined);
  const url = typeof inner === 'string' ? inner : isObject(inner) ? string(inner.url) || string(inner.media_type) || string(inner.filename) : '';
  const named = url || string(p.filename) || string(p.file_id) || string(p.title);
  return named.startsWith('data:') ? named.slice(0, named.indexOf(',') + 1) + '…' : named || string(p.type);
}

/** Reads a message by its shape, so that stored messages and those of a window look the same. */
export function shown(message: unknown): Shown {
  if (!isObject(message)) return { role: '', blocks: [{ kind: 'other', text: pretty(message) }] };
  const m = message;
  const blocks: Block[] = [];
  if (typeof m.type === 'string' && m.role === undefined) {
    switch (m.type) {
      case 'function_call':
      case 'custom_tool_call':
        return { role: 'assistant', blocks: [{ kind: 'call', name: string(m.name), id: string(m.call_id), text: pretty(m.arguments ?? m.input) }] };
      case 'function_call_output':
      case 'custom_tool_call_output':
        return { role: 'tool', blocks: [{ kind: 'result', id: string(m.call_id), text: textOf(m.output) }] };
      case 'reasoning':
        return { role: 'assistant', blocks: [{ kind: 'thinking', text: textOf(m.summary) || textOf(m.content) || '[encrypted]' }] };
      case 'a2a':
        break;
      default:
        return { role: 'assistant', blocks: [{ kind: 'other', text: pretty(m) }] };
    }
  }
  const role = string(m.role) || (m.type === 'a2a' ? 'a2a' : '');
  const reasoning = string(m.reasoning_content) || string(m.reasoning);
  if (reasoning) blocks.push({ kind: 'thinking', text: reasoning });
  if (role === 'tool' || role === 'function') {
    blocks.push({ kind: 'result', id: string(m.tool_call_id), name: string(m.name) || undefined, text: textOf(m.content) });
    return { role, blocks };
  }
  if (typeof m.content === 'string') {
    if (m.content) blocks.push({ kind: 'text', text: m.content });
  } else if (Array.isArray(m.content)) {
    blocks.push(...m.content.map(part));
  }
  if (Array.isArray(m.tool_calls)) {
    for (const call of m.tool_calls) {
      if (!isObject(call)) continue;
      const f = isObject(call.function) ? call.function : isObject(call.custom) ? call.custom : {};
      blocks.push({ kind: 'call', name: string(f.name), id: string(call.id), text: pretty(f.arguments ?? f.input) });
    }
  }
  return { role, blocks };
}

/** A one-line summary of a message. */
export function line(s: Shown): string {
  return s.blocks
    .map((b) => {
      switch (b.kind) {
        case 'call':
          return `▸ ${b.name}(${b.text.replace(/\s+/g, ' ').slice(0, 160)})`;
        case 'result':
          return `→ ${b.text}`;
        case 'thinking':
          return `thinking: ${b.text}`;
        case 'image':
        case 'file':
          return `[${b.kind} ${b.text}]`;
        default:
          return b.text;
      }
    })
    .join(' ');
}
