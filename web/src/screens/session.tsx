import { useLocation } from 'preact-iso';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api, Failure, pages, take, type Schemas } from '../api/client';
import { Body, Role } from '../components/atom';
import { Chip, ConfirmTyped, Dialog, Empty, FateChip, Head, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { useVirtual } from '../components/virtual';
import { Waterfall } from '../components/waterfall';
import { atoms, height, type Atom } from '../lib/atoms';
import { line } from '../lib/blocks';
import type { Row } from '../lib/fates';
import { brief, count, many, preview } from '../lib/format';
import type { Message } from '../lib/window';
import { useCommands } from '../state/keys';
import { useLoad } from '../state/load';
import { to, useQuery } from '../state/query';
import { mayAdminister, mayWrite } from '../state/session';
import { useStream } from '../state/stream';

/** The transcript of a session, with the tokens of its windows over time. */
export default function SessionScreen({ p, s }: { p: string; s: string }) {
  const path = { project: p, session: s };
  const { query, set } = useQuery();
  const { route } = useLocation();
  const [messages, setMessages] = useState<Message[]>([]);
  const head = useLoad((signal) => take(api.GET('/api/v1/projects/{project}/sessions/{session}', { params: { path }, signal })), [p, s]);
  const loaded = useLoad(
    async (signal) => {
      const all: Message[] = [];
      await pages<Message>(100_000, async (cursor) => {
        const page = await take(api.GET('/api/v1/projects/{project}/sessions/{session}/messages', { params: { path, query: { limit: 1000, cursor } }, signal }));
        all.push(...page.data);
        // Keep showing the old data while new data is loading.
        if (!signal.aborted) setMessages((now) => (now.length > all.length && now[0]?.id === all[0]?.id && page.has_more ? now : [...all]));
        return page;
      });
      return true;
    },
    [p, s, head.data?.revision],
  );
  const decisions = useLoad(
    async (signal) => {
      const page = await take(api.GET('/api/v1/projects/{project}/decisions', { params: { path: { project: p }, query: { session_id: s, limit: 200 } }, signal }));
      return page.data.reverse();
    },
    [p, s, head.data?.revision],
  );
  const live = useStream(`/api/v1/projects/${encodeURIComponent(p)}/sessions/${encodeURIComponent(s)}/stream`, (e) => (e.event === 'decision' ? decisions.reload() : head.reload()));
  const newest = decisions.data?.[decisions.data.length - 1]?.decision_id;
  const decision = useLoad(
    async (signal) => (newest ? take(api.GET('/api/v1/projects/{project}/decisions/{decision}', { params: { path: { project: p, decision: newest } }, signal })) : undefined),
    [newest],
  );
  const fates = useMemo(() => new Map((decision.data?.report ?? []).map((r) => [r.message_id, r])), [decision.data]);
  const list = useMemo(() => atoms(messages), [messages]);
  const [dialog, setDialog] = useState<'fork' | 'rewind' | 'erase' | 'delete'>();
  const [at, setAt] = useState(-1);
  const chosen = query.t === undefined ? undefined : Number(query.t);
  const turnAt = list[at]?.turn;

  useEffect(() => {
    document.title = `${s} · Mneme`;
  }, [s]);
  useCommands([
    { keys: 'x', label: 'X-ray of the newest window', group: 'Session', run: () => route(to.xray(p, s, newest)) },
    { keys: 'l', label: 'Lab', group: 'Session', run: () => route(to.lab(p, s, newest)) },
    { keys: 'j', label: 'Next message', group: 'Session', run: () => setAt((n) => Math.min(list.length - 1, n + 1)) },
    { keys: 'k', label: 'Previous message', group: 'Session', run: () => setAt((n) => Math.max(0, n - 1)) },
    { keys: 'e', label: 'Export the session', group: 'Session', run: () => void download(p, s) },
  ]);
  const info = head.data;
  return (
    <div class="screen session">
      <Head
        trail={[[p, to.sessions(p)]]}
        title={<Hostile text={info?.title || s} />}
        note={
          info && (
            <>
              {live === 'live' && <Chip tone="keep" title="New turns and windows appear automatically.">live</Chip>} {live === 'waiting' && <Chip tone="short">reconnecting</Chip>}{' '}
              {many(info.turns, 'turn')}, {many(info.messages, 'message')}, {brief(info.tokens)} tokens, active <When at={info.last_activity_at} />{' '}
              {info.kind === 'background' && <Chip>background</Chip>} {info.agent && <Chip><Hostile text={info.agent} /></Chip>} {info.memory_namespace && <Chip title="The namespace of its memories"><Hostile text={info.memory_namespace.join(' / ')} /></Chip>}{' '}
              {info.summary && <Chip tone="summary" title={info.summary}>{many(info.summarized_count, 'message')} summarised</Chip>}
            </>
          )
        }
      >
        {mayWrite.value && <button type="button" onClick={() => setDialog('fork')}>Fork</button>}
        {mayWrite.value && <button type="button" onClick={() => setDialog('rewind')}>Rewind</button>}
        <button type="button" onClick={() => void download(p, s)}>Export</button>
        {mayAdminister.value && <button type="button" class="danger-quiet" title="Delete superseded and removed messages, and former versions of edited ones" onClick={() => setDialog('erase')}>Erase</button>}
        {mayWrite.value && <button type="button" class="danger-quiet" onClick={() => setDialog('delete')}>Delete</button>}
        <a class="button primary" href={to.xray(p, s, newest)} title="Why the model sees what it sees  x">X-ray</a>
      </Head>
      {head.error && <Trouble error={head.error} retry={head.reload} />}
      {loaded.error && <Trouble error={loaded.error} retry={loaded.reload} />}
      {decisions.data && decisions.data.length > 0 && <Waterfall decisions={decisions.data} onOpen={(row) => row.decision_id && route(to.xray(p, s, row.decision_id))} />}
      {messages.length === 0 && loaded.loading && <Waiting rows={8} />}
      {messages.length === 0 && !loaded.loading && !loaded.error && <Empty title="No messages yet"><p>A turn that is posted to this session appears here.</p></Empty>}
      <p class="sr" aria-live="polite">{live === 'live' && info ? `${count(info.turns)} turns` : ''}</p>
      {messages.length > 0 && <Transcript list={list} fates={fates} turn={chosen} at={at} onAt={setAt} onTurn={(t) => set({ t })} windowed={!!decision.data} complete={!loaded.loading} />}
      {dialog === 'fork' && info && <Fork project={p} session={info} turn={turnAt ?? chosen} onClose={() => setDialog(undefined)} />}
      {dialog === 'rewind' && info && <Rewind project={p} session={info} turn={turnAt ?? chosen} onClose={() => setDialog(undefined)} onDone={head.reload} />}
      {dialog === 'erase' && (
        <ConfirmTyped
          title="Erase what no longer belongs to the session"
          name={s}
          action="Erase it"
          onClose={() => setDialog(undefined)}
          onConfirm={async () => {
            await take(api.POST('/api/v1/projects/{project}/sessions/{session}/erase', { params: { path } }));
            head.reload();
          }}
        >
          <p>Superseded and removed messages, and former versions of edited ones, are deleted for good. Decisions that may show them cannot be read any more.</p>
        </ConfirmTyped>
      )}
      {dialog === 'delete' && (
        <ConfirmTyped
          title="Delete the session"
          name={s}
          action="Delete it"
          onClose={() => setDialog(undefined)}
          onConfirm={async () => {
            await take(api.DELETE('/api/v1/projects/{project}/sessions/{session}', { params: { path } }));
            route(to.sessions(p));
          }}
        >
          <p>Its transcript, summaries and decisions are deleted permanently. Memories stay.</p>
        </ConfirmTyped>
      )}
    </div>
  );
}

function Transcript({ list, fates, turn, at, onAt, onTurn, windowed, complete }: { list: Atom[]; complete: boolean; fates: Map<string | null, Row>; turn?: number; at: number; onAt: (n: number) => void; onTurn: (t: number) => void; windowed: boolean }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [raw, setRaw] = useState<string>();
  const v = useVirtual({ count: list.length, estimate: (i) => (list[i] ? height(list[i], scroller.current?.clientWidth ?? 900) : 84), scroller, keyOf: (i) => list[i]?.messages[0]?.message.id ?? i });
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current || list.length === 0 || (turn === undefined && !complete)) return;
    // The transcript opens at the turn in the URL, or else at its end.
    const place = turn === undefined ? list.length - 1 : list.findIndex((a) => a.turn === turn);
    if (turn !== undefined && place < 0) return;
    begun.current = true;
    v.list.scrollToIndex(place, { align: turn === undefined ? 'end' : 'start' });
  }, [list.length, complete]);
  // If the end is visible, scroll to what is added; otherwise keep the position.
  const length = useRef(0);
  useEffect(() => {
    const e = scroller.current;
    const added = begun.current && length.current > 0 && list.length > length.current;
    length.current = list.length;
    if (added && e && e.scrollHeight - e.scrollTop - e.clientHeight < 600) v.list.scrollToIndex(list.length - 1, { align: 'end' });
  }, [list.length]);
  useEffect(() => {
    if (at >= 0) v.list.scrollToIndex(at, { align: 'auto' });
  }, [at]);
  return (
    <section class="transcript" aria-label="Transcript">
      {windowed && <p class="key muted">The line at the left shows what the newest window made of each message.</p>}
      <div class="scroller" ref={scroller} tabIndex={0} role="list" aria-label="Messages">
        <div style={{ height: `${v.height}px` }}>
          {v.items.map((item) => {
            const atom = list[item.index];
            if (!atom) return null;
            const first = item.index === 0 || list[item.index - 1]!.turn !== atom.turn;
            return (
              <div key={item.key} ref={v.list.measureElement} data-index={item.index} role="listitem" aria-setsize={list.length} aria-posinset={item.index + 1} class="vrow" style={{ transform: `translateY(${item.start}px)` }}>
                <AtomRow atom={atom} first={first} fates={fates} current={at === item.index} marked={turn === atom.turn} raw={raw} onRaw={setRaw} onSelect={() => { onAt(item.index); onTurn(atom.turn); }} />
              </div>
            );
          })}
        </div>
      </div>
    </section>
  );
}

/** One atom of the transcript: a message, or a call with its results collapsed below it. */
function AtomRow({ atom, first, fates, current, marked, raw, onRaw, onSelect }: {
  atom: Atom; first: boolean; fates: Map<string | null, Row>; current: boolean; marked: boolean; raw?: string; onRaw: (id: string | undefined) => void; onSelect: () => void;
}) {
  const [head, ...results] = atom.messages;
  const fate = fates.get(head!.message.id);
  const m = head!.message;
  return (
    <article class={`atom ${current ? 'current' : ''} ${marked ? 'marked' : ''} fate-${fate?.action ?? 'none'}`} aria-label={`Turn ${atom.turn}, ${head!.shown.role}`}>
      <div class="gutter">
        {first && <button type="button" class="turn-number" onClick={onSelect} title={`Turn ${atom.turn}: select it`}>{atom.turn}</button>}
      </div>
      <div class="atom-body">
        <div class="item-head">
          <Role role={head!.shown.role || m.role} />
          {m.agent && m.agent !== 'main' && <Chip><Hostile text={m.agent} /></Chip>}
          {m.delegation_id && <Chip tone="inject" title="A delegation to another agent"><Hostile text={m.delegation_id} /></Chip>}
          {m.superseded && <Chip tone="drop">taken back</Chip>}
          {m.damaged && <Chip tone="drop">damaged</Chip>}
          {fate && fate.action !== 'keep' && <FateChip action={fate.action} />}
          <span class="grow" />
          <span class="muted">{brief(atom.tokens)} tokens</span>
          <button type="button" class="quiet small" aria-pressed={raw === m.id} onClick={() => onRaw(raw === m.id ? undefined : m.id)}>raw<span class="sr"> message of turn {atom.turn}</span></button>
        </div>
        {raw === m.id ? <Body shown={head!.shown} raw={atom.messages.length === 1 ? m.message : atom.messages.map((x) => x.message.message)} /> : <Body shown={head!.shown} />}
        {raw !== m.id && results.length > 0 && (
          <details class="results">
            <summary>
              {many(results.length, 'result')} <span class="muted"><Hostile text={preview(results.map((r) => line(r.shown)).join(' '), 160)} /></span>
            </summary>
            {results.map((r) => <Body key={r.message.id} shown={r.shown} />)}
          </details>
        )}
      </div>
    </article>
  );
}

/** Saves the session as a file, which can be imported again. */
async function download(project: string, session: string) {
  const response = await api.GET('/api/v1/projects/{project}/sessions/{session}/export', { params: { path: { project, session } }, parseAs: 'blob' });
  if (!response.data) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(response.data as unknown as Blob);
  link.download = `${session}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function Fork({ project, session, turn, onClose }: { project: string; session: Schemas['Session']; turn?: number; onClose: () => void }) {
  const { route } = useLocation();
  const [name, setName] = useState(`${session.id}-fork`);
  const [last, setLast] = useState(String(turn ?? session.last_turn));
  const [error, setError] = useState<Failure>();
  const submit = async (e: Event) => {
    e.preventDefault();
    try {
      await take(api.POST('/api/v1/projects/{project}/sessions/{session}/fork', { params: { path: { project, session: session.id } }, body: { as: name, at_turn: Number(last) } }));
      onClose();
      route(to.session(project, name));
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="Fork the session" onClose={onClose}>
      <form onSubmit={submit}>
        <p>A copy of its turns, which continues separately. The session itself does not change.</p>
        <label>Name of the copy<input autoFocus required maxLength={128} value={name} onInput={(e) => setName(e.currentTarget.value)} /></label>
        <label>Up to turn<input type="number" min="1" max={session.last_turn} required value={last} onInput={(e) => setLast(e.currentTarget.value)} /></label>
        {error && <Trouble error={error} />}
        <div class="actions">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="primary">Fork</button>
        </div>
      </form>
    </Dialog>
  );
}

function Rewind({ project, session, turn, onClose, onDone }: { project: string; session: Schemas['Session']; turn?: number; onClose: () => void; onDone: () => void }) {
  const [last, setLast] = useState(String(turn ?? Math.max(0, session.last_turn - 1)));
  return (
    <ConfirmTyped
      title="Rewind the session"
      name={session.id}
      action="Rewind"
      onClose={onClose}
      onConfirm={async () => {
        await take(api.POST('/api/v1/projects/{project}/sessions/{session}/rewind', { params: { path: { project, session: session.id } }, body: { to_turn: Number(last), if_revision: session.revision } }));
        onDone();
      }}
    >
      <p>Later turns leave windows, recall and counts. They stay stored for older decisions.</p>
      <label>Newest turn that stays (of {count(session.last_turn)})<input type="number" min="0" max={session.last_turn} value={last} onInput={(e) => setLast(e.currentTarget.value)} /></label>
    </ConfirmTyped>
  );
}
