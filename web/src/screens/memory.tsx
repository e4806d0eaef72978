import { useState } from 'preact/hooks';
import { api, Failure, pages, take, type Schemas } from '../api/client';
import { Chip, ConfirmTyped, Dialog, Empty, Head, Trouble, Waiting, When } from '../components/basic';
import { Extra } from '../components/recallhit';
import { Hostile } from '../components/text';
import { Words } from '../components/windowdiff';
import { moment } from '../lib/format';
import { useLoad } from '../state/load';
import { to, useQuery } from '../state/query';
import { mayWrite } from '../state/session';
import { Importance, namespaceOf, StoreMemory, tones } from './memories';

/** The history of a memory: each version, who wrote it, and what it changed. */
export default function MemoryScreen({ p, memory: key }: { p: string; memory: string }) {
  const path = { project: p, memory: key };
  const ns = useQuery().query.ns;
  const namespace = namespaceOf(ns);
  const [dialog, setDialog] = useState<'edit' | 'forget'>();
  const loaded = useLoad(
    async (signal) => {
      const now = await take(api.GET('/api/v1/projects/{project}/memories/{memory}', { params: { path, query: { namespace } }, signal })).catch((failure: Failure) => {
        if (failure.status === 404) return undefined;
        throw failure;
      });
      const former = await pages<Schemas['MemoryVersion']>(1000, (cursor) =>
        take(api.GET('/api/v1/projects/{project}/memories/{memory}/history', { params: { path, query: { limit: 100, cursor, namespace } }, signal })),
      ).catch((failure: Failure) => {
        if (failure.status === 404) return [];
        throw failure;
      });
      return { now, former };
    },
    [p, key, ns],
  );
  const { now, former = [] } = loaded.data ?? {};
  const versions: Schemas['Memory'][] = [...(now ? [now] : []), ...former.filter((v) => v.version !== now?.version)].sort((a, b) => b.version - a.version);
  const forget = async () => {
    await take(api.DELETE('/api/v1/projects/{project}/memories/{memory}', { params: { path, query: { namespace } } }));
    loaded.reload();
  };
  return (
    <div class="screen">
      <Head trail={[[p, to.sessions(p)], ['Memories', to.memories(p)]]} title={<>{namespace && <span class="muted"><Hostile text={namespace.join(' / ')} /> / </span>}<Hostile text={key} /></>} note={now && <><Chip tone={tones[now.category]}>{now.category}</Chip> version {now.version}, first stored <When at={now.created_at} />{now.expires_at && <>, expires <When at={now.expires_at} /></>}</>}>
        {now && mayWrite.value && <button type="button" onClick={() => setDialog('edit')}>New version</button>}
        {now && mayWrite.value && <button type="button" class="danger-quiet" onClick={() => setDialog('forget')}>Forget</button>}
      </Head>
      {loaded.error && <Trouble error={loaded.error} retry={loaded.reload} />}
      {!loaded.data && loaded.loading && <Waiting />}
      {loaded.data && !now && (
        <Empty title="It is forgotten">
          <p>No memory has this key. A forgotten memory leaves no content behind{former.length > 0 ? '; what is listed below was overwritten before' : ''}.</p>
        </Empty>
      )}
      <ol class="timeline" aria-label="Versions, newest first">
        {versions.map((v, i) => {
          const before = versions[i + 1];
          const replaced = (v as Schemas['MemoryVersion']).replaced;
          return (
            <li key={v.version} class={v === now ? 'now' : ''}>
              <div class="item-head">
                <b>Version {v.version}</b> {v === now ? <Chip tone="keep">now</Chip> : <Chip>former</Chip>}
                <time dateTime={v.updated_at} class="muted">{moment(v.updated_at)}</time>
                <span class="muted">by {v.agent ? <Hostile text={v.agent} /> : <code>{v.key_id}</code>}{v.source && <>, from <Hostile text={v.source} /></>}</span>
                <span class="grow" />
                <Importance value={v.importance} />
              </div>
              {before ? <Words before={before.content} after={v.content} /> : <div class="prose words"><Hostile text={v.content} /></div>}
              <Extra of={v} />
              <p class="muted">
                {v.trust && <>trusted as {v.trust === 'user' ? "a user's words" : v.trust === 'operator' ? "an operator's words" : v.trust === 'tool' ? "a tool's" : "a model's"} </>}
                {v.provenance?.sources?.map((s) => <><a href={to.session(p, s.session_id)}>from message {s.seq} of <Hostile text={s.session_id} /></a> </>)}
                {v.pinned && <Chip>pinned</Chip>} {v.standing && <Chip>standing</Chip>}
                {v.occurred_at && <>of <When at={v.occurred_at} /> </>}
                {v.tags.map((t) => <Chip key={t}><Hostile text={t} /></Chip>)} {v.session_id && <a href={to.session(p, v.session_id)}>session <Hostile text={v.session_id} /></a>}
                {replaced && <> replaced {moment(replaced.at)}</>}
              </p>
            </li>
          );
        })}
      </ol>
      {dialog === 'edit' && now && <StoreMemory project={p} memory={now} onClose={() => setDialog(undefined)} onStored={loaded.reload} />}
      {dialog === 'forget' && now && now.category === 'core' && (
        <ConfirmTyped title="Forget a core memory" name={key} action="Forget it" onClose={() => setDialog(undefined)} onConfirm={forget}>
          <p>Its content and all earlier versions are deleted permanently, and windows no longer include it.</p>
        </ConfirmTyped>
      )}
      {dialog === 'forget' && now && now.category !== 'core' && (
        <Dialog title="Forget the memory" onClose={() => setDialog(undefined)}>
          <p>Its content and all earlier versions are deleted permanently, and windows no longer include it.</p>
          <div class="actions">
            <button type="button" onClick={() => setDialog(undefined)}>Cancel</button>
            <button type="button" class="danger" onClick={() => void forget().then(() => setDialog(undefined))}>Forget it</button>
          </div>
        </Dialog>
      )}
    </div>
  );
}
