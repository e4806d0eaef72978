import type { Schemas } from '../api/client';
import { brief, count } from '../lib/format';

type Parts = Schemas['Usage']['parts'];

/** The parts of a prompt in the order in which they are sent, then the unused budget. */
export const parts: [keyof Parts, string, string][] = [
  ['system', 'System', 'The system prompt that came with the request.'],
  ['tools', 'Tools', 'Descriptions of the tools that the model may call.'],
  ['memories', 'Memories', 'Facts that were recalled for this question.'],
  ['summary', 'Summary', 'The running summary of older turns.'],
  ['marker', 'Marker', 'The note that earlier messages were left out.'],
  ['history', 'History', 'Messages of the session that are in the window.'],
  ['pending', 'In flight', 'Messages of the turn in flight, which are not stored yet.'],
  ['free', 'Free', 'What is left of the budget.'],
  ['reserved', 'Reserved', 'What is kept free for the answer.'],
];

/** All tokens of a budget, used or not. */
export const total = (usage: Schemas['Usage']) => Object.values(usage.parts).reduce((a, b) => a + b, 0);

/**
 * How the budget of a window is used. Each part has a pattern as well as a colour. Bars that are compared have the same
 * total, `of` tokens.
 */
export function BudgetBar({ usage, small, of }: { usage: Schemas['Usage']; small?: boolean; of?: number }) {
  const shown = parts.filter(([name]) => usage.parts[name] > 0);
  const all = shown.reduce((sum, [name]) => sum + usage.parts[name], 0) || 1;
  const said = shown.map(([name, title]) => `${title} ${count(usage.parts[name])}`).join(', ');
  return (
    <div class={small ? 'budget small' : 'budget'}>
      <div class="bar" role="img" aria-label={`Tokens: ${said}`} style={of ? { width: `${Math.min(100, (all / of) * 100)}%` } : undefined}>
        {shown.map(([name, title]) => (
          <span key={name} class={`part-${name}`} style={{ flexGrow: usage.parts[name] / all }} title={`${title}: ${count(usage.parts[name])} tokens`} />
        ))}
      </div>
      {!small && (
        <ul class="legend">
          {shown.map(([name, title, says]) => (
            <li key={name} title={says}>
              <span class={`swatch part-${name}`} aria-hidden="true" />
              {title} <b>{brief(usage.parts[name])}</b>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
