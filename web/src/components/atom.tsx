import { useState } from 'preact/hooks';
import { pretty, type Block, type Shown } from '../lib/blocks';
import { Hostile } from './text';

export const roleNames: Record<string, string> = {
  user: 'User', assistant: 'Assistant', tool: 'Tool', system: 'System', developer: 'Developer', a2a: 'Agent',
  memories: 'Memories', summary: 'Summary', older: 'Older', text: 'Text', '': 'Note',
};

/** A letter for a role, in the role's colour. Screen readers read the name. */
export function Role({ role }: { role: string }) {
  const name = roleNames[role] ?? role;
  return (
    <span class={`role role-${role in roleNames ? role || 'note' : 'note'}`} title={name}>
      <span aria-hidden="true">{name.slice(0, 1)}</span>
      <span class="sr">{name}</span>
    </span>
  );
}

const long = 1400;

/** One part of a message. Long texts are collapsed, so that a tool result does not hide what is around it. */
export function BlockView({ block }: { block: Block }) {
  const [open, setOpen] = useState(false);
  const text = open || block.text.length <= long ? block.text : block.text.slice(0, long);
  const body = (
    <>
      <Hostile text={text} />
      {block.text.length > long && (
        <button type="button" class="link" onClick={() => setOpen(!open)}>
          {open ? 'show less' : `… show all ${block.text.length.toLocaleString('en')} characters`}
        </button>
      )}
    </>
  );
  switch (block.kind) {
    case 'call':
      return (
        <div class="block call">
          <span class="block-name">
            ▸ call <b><Hostile text={block.name ?? ''} /></b>
          </span>
          <pre>{body}</pre>
        </div>
      );
    case 'result':
      return (
        <div class={block.error ? 'block result error' : 'block result'}>
          <span class="block-name">
            ◂ {block.error ? 'error' : 'result'} {block.name && <b><Hostile text={block.name} /></b>}
          </span>
          <pre>{body}</pre>
        </div>
      );
    case 'thinking':
      return (
        <details class="block thinking">
          <summary>thinking</summary>
          <div class="prose">{body}</div>
        </details>
      );
    case 'image':
    case 'file':
      return (
        <div class="block">
          <span class="block-name">{block.kind}</span> <Hostile text={block.text} /> <span class="muted">(never loaded here)</span>
        </div>
      );
    case 'other':
      return <pre class="block">{body}</pre>;
    default:
      return <div class="prose">{body}</div>;
  }
}

/** A message with its parts, or as the posted JSON. */
export function Body({ shown, raw }: { shown: Shown; raw?: unknown }) {
  if (raw !== undefined) {
    return (
      <pre class="raw">
        <Hostile text={pretty(raw)} />
      </pre>
    );
  }
  return (
    <div class="blocks">
      {shown.blocks.map((b, i) => (
        <BlockView key={i} block={b} />
      ))}
      {shown.blocks.length === 0 && <span class="muted">(empty)</span>}
    </div>
  );
}
