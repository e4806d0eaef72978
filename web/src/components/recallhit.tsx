import { useState } from 'preact/hooks';
import type { Schemas } from '../api/client';
import { many } from '../lib/format';
import { to } from '../state/query';
import { Chip, When } from './basic';
import { Hostile } from './text';

type Hit = Schemas['RecallHit'];

/** One recall result: its text, and its score as the sum of its parts. Terms are highlighted in the text. */
export function RecallHit({ project, hit, most, rank }: { project: string; hit: Hit; most: number; rank: number }) {
  const [term, setTerm] = useState<string>();
  const terms = hit.why.terms.reduce((n, t) => n + t.weight, 0);
  const scored: [string, string, number][] = [
    ['terms', 'Words', terms],
    ['neighbours', 'Neighbours', hit.why.neighbours],
    ['session', 'Session', hit.why.session],
    ['date', 'Date', hit.why.date],
    ['importance', 'Importance', hit.why.importance],
    ['vector', 'Meaning', hit.why.vector ?? 0],
  ];
  const rest = hit.score - scored.reduce((n, [, , v]) => n + v, 0);
  if (Math.abs(rest) > 1e-6) scored.push(['other', 'Other', rest]);
  const href = hit.kind === 'memory' ? to.memory(project, hit.key ?? '', hit.namespace) : `${to.session(project, hit.session_id ?? '')}?t=${hit.turn}`;
  return (
    <li class="hit">
      <div class="item-head">
        <b class="rank">{rank}</b>
        <a href={href}><Hostile text={hit.kind === 'memory' ? [...(hit.namespace ?? []), hit.key].join(' / ') : `${hit.session_id} turn ${hit.turn}`} /></a>
        <Chip tone={hit.kind === 'memory' ? 'inject' : 'keep'}>{hit.kind}</Chip>
        {hit.category && <Chip><Hostile text={hit.category} /></Chip>} {hit.role && <Chip>{hit.role}</Chip>} {hit.speaker && <Chip><Hostile text={hit.speaker} /></Chip>}
        <span class="muted"><When at={hit.created_at} />{hit.occurred_at && <>, of <When at={hit.occurred_at} /></>}{!!hit.duplicates && `, said ${many(hit.duplicates, 'more time')}`}</span>
        <span class="grow" />
        <span class="number"><b>{hit.score.toFixed(3)}</b></span>
      </div>
      <p class="prose"><Marked text={hit.content} term={term} /></p>
      <Extra of={hit} />
      <div class="score" role="img" aria-label={`Score ${hit.score.toFixed(3)}: ${scored.filter(([, , v]) => v !== 0).map(([, name, v]) => `${name} ${v.toFixed(3)}`).join(', ')}`}>
        {scored.filter(([, , v]) => v > 0).map(([id, name, v]) => <span key={id} class={`why-${id}`} style={{ width: `${(v / most) * 100}%` }} title={`${name} ${v.toFixed(3)}`} />)}
      </div>
      <p class="parts">
        {scored.filter(([, , v]) => v !== 0).map(([id, name, v]) => <span key={id}><span class={`swatch why-${id}`} aria-hidden="true" />{name} {v.toFixed(3)}</span>)}
        {hit.why.terms.map((t) => (
          <button type="button" key={t.term} class="chip tone-plain" aria-pressed={term === t.term} onClick={() => setTerm(term === t.term ? undefined : t.term)}>
            <Hostile text={t.term} /> {t.weight.toFixed(2)}
          </button>
        ))}
      </p>
    </li>
  );
}

/** The fields of a memory other than its text. */
export function Extra({ of }: { of: { metadata?: Record<string, unknown>; value?: unknown } }) {
  const metadata = Object.entries(of.metadata ?? {});
  if (metadata.length === 0 && of.value === undefined) return null;
  return (
    <p class="parts">
      {metadata.map(([name, v]) => <span key={name}><Hostile text={name} /> <code><Hostile text={JSON.stringify(v)} /></code></span>)}
      {of.value !== undefined && <span>value <code><Hostile text={JSON.stringify(of.value)} /></code></span>}
    </p>
  );
}

/** A text in which words that start with a term are highlighted: terms are stems. */
function Marked({ text, term }: { text: string; term?: string }) {
  if (!term) return <Hostile text={text} />;
  const stem = term.toLowerCase();
  return (
    <>
      {text.split(/([\p{L}\p{N}]+)/u).map((piece, i) => {
        const word = piece.toLowerCase();
        const like = i % 2 === 1 && (word.startsWith(stem) || (stem.length > 3 && stem.endsWith('i') && word.startsWith(stem.slice(0, -1))));
        return like ? <mark key={i}><Hostile text={piece} /></mark> : <Hostile key={i} text={piece} />;
      })}
    </>
  );
}
