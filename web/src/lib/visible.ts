/**
 * Invisible characters that change how a text reads: directional controls, zero widths, tags, and control characters other
 * than tab and newline. A text that hides something should look like it.
 */
const hidden =
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u115F\u1160\u17B4\u17B5\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFE00-\uFE0D\uFEFF\uFFA0\uFFF0-\uFFFB]|[\u{E0000}-\u{E0FFF}]/gu;

export interface Piece {
  text: string;
  /** The piece is one hidden character, and text is its name, such as U+202E. */
  hidden?: boolean;
}

/** Splits a text into pieces to show unchanged and characters to show by their code. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  // A carriage return before a newline is a usual line ending and hides nothing.
  for (const match of text.matchAll(hidden)) {
    const at = match.index;
    if (match[0] === '\r' && text[at + 1] === '\n') continue;
    if (at > from) found.push({ text: text.slice(from, at) });
    found.push({ text: 'U+' + match[0].codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0'), hidden: true });
    from = at + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from) });
  return found;
}
