import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Failure } from '../api/client';
import { fates, type Action } from '../lib/fates';
import { ago, moment } from '../lib/format';

/** The outcome of a message as a chip in its tone. */
export function FateChip({ action }: { action: Action }) {
  const fate = fates[action];
  return (
    <span class={`chip tone-${fate.tone}`} title={fate.says}>
      {fate.word}
    </span>
  );
}

export function Chip({ tone = 'plain', title, children }: { tone?: string; title?: string; children: ComponentChildren }) {
  return (
    <span class={`chip tone-${tone}`} title={title}>
      {children}
    </span>
  );
}

/** A time relative to now, with the absolute time as the title. */
export function When({ at }: { at: string | null | undefined }) {
  return at ? (
    <time dateTime={at} title={moment(at)}>
      {ago(at)}
    </time>
  ) : (
    <span>–</span>
  );
}

/** An error, as the server reports it. */
export function Trouble({ error, retry }: { error: Failure; retry?: () => void }) {
  return (
    <div class="trouble" role="alert">
      <strong>{error.problem.title ?? 'Something went wrong'}</strong>
      <p>{error.message}</p>
      <p class="muted">
        {error.problem.code && <code>{error.problem.code}</code>} {error.problem.request_id && `request ${error.problem.request_id}`}
      </p>
      {retry && <button onClick={retry}>Try again</button>}
    </div>
  );
}

/** The placeholder for an empty list, with a hint what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Placeholder bars while rows are loading. */
export function Waiting({ rows = 6 }: { rows?: number }) {
  return (
    <div class="waiting" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <div key={i} />
      ))}
    </div>
  );
}

/** A button that loads the next page of a list, if there is one. */
export function ShowMore({ next }: { next?: () => Promise<void> }) {
  return next ? <p class="more"><button type="button" onClick={() => void next()}>Show more</button></p> : null;
}

/** A button that copies a text and confirms it. */
export function Copy({ text, children }: { text: () => string; children: ComponentChildren }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text());
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" onClick={copy}>
      {done ? 'Copied ✓' : children}
    </button>
  );
}

/** Copies a text to the clipboard, also without TLS, where browsers do not offer the clipboard API. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {}
  }
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

/** A dialog, closed by Escape, by its button or by a click outside. */
export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = element.current!;
    if (!d.open) d.showModal();
    return () => d.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? 'wide' : ''}
      aria-label={title}
      onClose={onClose}
      onClick={(e) => e.target === e.currentTarget && onClose()}
    >
      <div class="dialog-body">
        <header>
          <h2>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Asks the user to type a name before something is deleted permanently. */
export function ConfirmTyped(props: { title: string; name: string; action: string; children: ComponentChildren; onConfirm: () => Promise<void>; onClose: () => void }) {
  const [typed, setTyped] = useState('');
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const confirm = async (e: Event) => {
    e.preventDefault();
    if (typed !== props.name || busy) return;
    setBusy(true);
    try {
      await props.onConfirm();
      props.onClose();
    } catch (failure) {
      setError(failure as Failure);
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <form onSubmit={confirm}>
        {props.children}
        <label>
          <span>Type <code>{props.name}</code> to go on</span>
          <input autoFocus value={typed} onInput={(e) => setTyped(e.currentTarget.value)} autocomplete="off" spellcheck={false} />
        </label>
        {error && <Trouble error={error} />}
        <div class="actions">
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={typed !== props.name || busy}>
            {props.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A control that selects one of several views or values. */
export function Segmented<T extends string>({ label, value, options, onChange }: { label: string; value: T; options: [T, string][]; onChange: (value: T) => void }) {
  return (
    <div class="segmented" role="group" aria-label={label}>
      {options.map(([option, name]) => (
        <button type="button" key={option} aria-pressed={option === value} onClick={() => onChange(option)}>
          {name}
        </button>
      ))}
    </div>
  );
}

/** A sparkline with room for at least so many bars. The numbers are shown next to it, so screen readers skip it. */
export function Spark({ values, marks, label, room = 1 }: { values: number[]; marks?: boolean[]; label: string; room?: number }) {
  const most = Math.max(1, ...values);
  const width = 4;
  return (
    <svg class="spark" viewBox={`0 0 ${Math.max(room, values.length) * width} 24`} width={values.length * width} height="24" role="img" aria-label={label} preserveAspectRatio="none">
      {values.map((v, i) => {
        const h = v <= 0 ? 0 : Math.max(2, (v / most) * 22);
        return <rect key={i} class={marks?.[i] ? 'cut' : ''} x={i * width} y={24 - h} width={width - 1} height={h} rx="0.8" />;
      })}
    </svg>
  );
}

/** The heading of a screen: breadcrumbs, title and actions. */
export function Head({ trail, title, note, children }: { trail?: [string, string][]; title: ComponentChildren; note?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="screen-head">
      <div class="what">
        {trail && trail.length > 0 && (
          <nav class="trail" aria-label="Breadcrumb">
            {trail.map(([name, href]) => (
              <span key={href}>
                <a href={href}>{name}</a>
                <span aria-hidden="true"> / </span>
              </span>
            ))}
          </nav>
        )}
        <h1>{title}</h1>
        {note && <p class="note">{note}</p>}
      </div>
      {children && <div class="actions">{children}</div>}
    </header>
  );
}
