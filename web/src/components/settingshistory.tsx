import { useState } from 'preact/hooks';
import { api, Failure, take, type Schemas } from '../api/client';
import { moment } from '../lib/format';
import { useLoad } from '../state/load';
import { Trouble, When } from './basic';
import { Hostile } from './text';

type Change = { setting: string; before?: unknown; after?: unknown };

const said = (value: unknown) => (value === null || value === undefined ? 'default' : JSON.stringify(value));

/** Settings with their old and new values. */
export function Values({ changes }: { changes: Change[] }) {
  return (
    <div class="changes">
      {changes.map((c) => (
        <p key={c.setting}>
          <code><Hostile text={c.setting} /></code> <del><Hostile text={said(c.before)} /></del> <span aria-hidden="true">→</span> <ins><Hostile text={said(c.after)} /></ins>
        </p>
      ))}
    </div>
  );
}

/** Who changed the project's settings, when and how, newest first. Reloaded after each change made here. */
export function SettingsHistory({ project, stored }: { project: string; stored: number }) {
  const page = (cursor?: string, signal?: AbortSignal) =>
    take(api.GET('/api/v1/projects/{project}/settings/history', { params: { path: { project }, query: { limit: 20, cursor } }, signal }));
  const first = useLoad((signal) => page(undefined, signal), [project, stored]);
  const [more, setMore] = useState<{ after: typeof first.data; rows: Schemas['SettingsChange'][]; cursor?: string }>();
  const [trouble, setTrouble] = useState<Failure>();
  const upon = more && more.after === first.data ? more : undefined;
  const rows = [...(first.data?.data ?? []), ...(upon?.rows ?? [])];
  const cursor = upon ? upon.cursor : first.data?.has_more ? (first.data.next_cursor ?? undefined) : undefined;
  const next = async () => {
    setTrouble(undefined);
    try {
      const found = await page(cursor);
      setMore({ after: first.data, rows: [...(upon?.rows ?? []), ...found.data], cursor: found.has_more ? (found.next_cursor ?? undefined) : undefined });
    } catch (failure) {
      setTrouble(failure as Failure);
    }
  };
  return (
    <section class="screen-part" aria-label="Settings history">
      <h2>Changes</h2>
      {(first.error ?? trouble) && <Trouble error={(first.error ?? trouble)!} retry={first.reload} />}
      {first.data && rows.length === 0 && <p class="muted">No changes yet.</p>}
      {rows.length > 0 && (
        <ol class="timeline">
          {rows.map((r) => (
            <li key={r.id}>
              <div class="item-head">
                <b><When at={r.created_at} /></b> <span class="muted">{moment(r.created_at)}, by {r.role.replace('_', ' ')} <code>{r.key_id || 'root'}</code></span>
              </div>
              <Values changes={r.changes} />
            </li>
          ))}
        </ol>
      )}
      {cursor && <p class="more"><button type="button" onClick={() => void next()}>Show more</button></p>}
    </section>
  );
}
