import { pieces } from '../lib/visible';

/**
 * An untrusted text: from a transcript, a memory or a name. It is rendered as text nodes only, and characters that hide
 * something or change the direction are shown by their code.
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
