import { pieces } from '../lib/visible';

/**
 * A text that somebody else wrote: a transcript, a memory, a name. It becomes text nodes only, and characters that hide
 * something or turn the direction are shown by their code.
 */
export function Hostile({ text }: { text: string }) {
  return (
    <bdi>
      {pieces(text).map((p, i) =>
        p.hidden ? (
          <span key={i} class="hidden-char" title="a character that is not seen">
            {p.text}
          </span>
        ) : (
          p.text
        ),
      )}
    </bdi>
  );
}
