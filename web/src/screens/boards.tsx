import { api, pages, take, type Schemas } from '../api/client';
import { Empty, Head, Trouble, Waiting, When } from '../components/basic';
import { Hostile } from '../components/text';
import { count } from '../lib/format';
import { useLoad } from '../state/load';
import { to } from '../state/query';

/** All boards that the key reaches. */
export default function Boards() {
  const list = useLoad((signal) => pages<Schemas['Board']>(1000, (cursor) => take(api.GET('/api/v1/boards', { params: { query: { limit: 200, cursor } }, signal }))), []);
  return (
    <div class="screen">
      <Head title="Boards" note="Agents that work together post entries and values on a board, and mention each other." />
      {list.error && <Trouble error={list.error} retry={list.reload} />}
      {!list.data && list.loading && <Waiting />}
      {list.data?.length === 0 && <Empty title="No boards yet"><p>The first post creates one: <code>POST /api/v1/boards/NAME/memory</code>.</p></Empty>}
      {list.data && list.data.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Boards">
          <table class="list">
            <thead><tr><th scope="col">Board</th><th scope="col" class="number">Entries</th><th scope="col">Kept for</th><th scope="col">Projects</th><th scope="col">Made</th></tr></thead>
            <tbody>
              {list.data.map((b) => (
                <tr key={b.id}>
                  <td><a class="row-link" href={to.board(b.id)}><Hostile text={b.name || b.id} /></a>{b.name && <span class="muted"> <Hostile text={b.id} /></span>}</td>
                  <td class="number">{count(b.entries)}</td>
                  <td>{b.retention_days === null ? 'good' : `${count(b.retention_days)} days`}</td>
                  <td>{b.projects.length === 0 ? 'all' : <Hostile text={b.projects.join(', ')} />}</td>
                  <td class="nowrap"><When at={b.created_at} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
