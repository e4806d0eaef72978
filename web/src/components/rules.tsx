import { bounds, type XWindow } from '../lib/window';
import { budget, check } from '../lib/rules';

/** The provider's rules, and whether the window follows them. */
export function Rules({ window: w }: { window: XWindow }) {
  if (w.lost) return null;
  const bound = bounds(w);
  const p = w.usage.parts;
  const used = p.summary + p.memories + p.marker + p.history + p.pending;
  const rules = [...check(w.format, w.messages, w.thinking), budget(p, bound, { tokens: used, messages: w.usage.history_messages })];
  const bad = rules.filter((r) => r.state === 'bad').length;
  return (
    <details class="rules" open={bad > 0}>
      <summary>
        <span class="sr">{bad ? `${bad} of ${rules.length} rules of the provider are broken` : `All ${rules.length} rules of the provider hold`}</span>
        {rules.map((r) => (
          <span key={r.name} class={`rule rule-${r.state}`} aria-hidden="true">
            {r.state === 'ok' ? '✓' : r.state === 'note' ? '•' : '✗'} {r.name}
          </span>
        ))}
      </summary>
      <ul>
        {rules.map((r) => (
          <li key={r.name} class={`rule-${r.state}`}>
            <b>{r.name}</b> {r.says}
          </li>
        ))}
      </ul>
    </details>
  );
}
