import { shown, type Shown } from './blocks';
import type { Message } from './window';

/** Messages that belong together: tool calls and their results, or a single message. */
export interface Atom {
  messages: { message: Message; shown: Shown }[];
  turn: number;
  tokens: number;
}

/** The approximate height of a text, in lines of so many characters. */
function lines(text: string, width: number): number {
  let n = 0;
  for (const line of text.slice(0, 1400).split('\n')) n += Math.max(1, Math.ceil(line.length / width));
  return n;
}

/** The approximate height of an atom, in pixels. */
export function height(atom: Atom, width: number): number {
  const characters = Math.max(20, Math.min(100, (width - 90) / 7));
  let pixels = 53 + (atom.messages.length > 1 ? 51 : 0);
  for (const [i, b] of atom.messages[0]!.shown.blocks.entries()) {
    pixels += i > 0 ? 8 : 0;
    if (b.kind === 'call' || b.kind === 'result') pixels += 21 + 18 * lines(b.text, characters);
    else if (b.kind === 'thinking') pixels += 24;
    else pixels += 21 * lines(b.text, characters);
    if (b.text.length > 1400) pixels += 24;
  }
  return pixels;
}

const onlyResults = (s: Shown) => s.blocks.length > 0 && s.blocks.every((b) => b.kind === 'result');

/** Groups results with the calls before them, within a turn. */
export function atoms(messages: Message[]): Atom[] {
  const out: Atom[] = [];
  for (const message of messages) {
    const what = shown(message.message);
    if (what.blocks.length === 0 && message.content) what.blocks.push({ kind: 'text', text: message.content });
    const last = out[out.length - 1];
    const calling = last?.messages.some((m) => m.shown.blocks.some((b) => b.kind === 'call'));
    if (last && calling && last.turn === message.turn && onlyResults(what)) {
      last.messages.push({ message, shown: what });
      last.tokens += message.tokens;
    } else out.push({ messages: [{ message, shown: what }], turn: message.turn, tokens: message.tokens });
  }
  return out;
}
