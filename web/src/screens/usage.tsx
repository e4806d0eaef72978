import { api, take, type Schemas } from '../api/client';
import { Chip, Head, Segmented, Trouble, Waiting } from '../components/basic';
import { Hostile } from '../components/text';
import { brief, count, micros, percent } from '../lib/format';
import { useLoad } from '../state/load';
import { to, useQuery } from '../state/query';

type Bucket = 'day' | 'hour';
type Figures = Schemas['ProjectFigures'];
const labels = {
  day: new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', weekday: 'short', day: 'numeric', month: 'short' }),
  hour: new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }),
};
const failed = (f: Figures) => Object.values(f.failures).reduce((a, b) => a + b, 0);
const share = (part: number, of: number) => (of > 0 ? percent(part / of) : '–');

/** What a project did over time, and what prompt caches could have saved and did save. */
export default function Usage({ p }: { p: string }) {
  const { query, set } = useQuery();
  const bucket: Bucket = query.by === 'hour' ? 'hour' : 'day';
  const stats = useLoad((signal) => take(api.GET('/api/v1/projects/{project}/stats', { params: { path: { project: p }, query: { bucket } }, signal })), [p, bucket]);
  const s = stats.data;
  return (
    <div class="screen">
      <Head trail={[['Projects', to.projects()]]} title={<>Usage of <Hostile text={p} /></>} note="Stored turns, windows, and the providers' token counts of calls through the proxy.">
        <Segmented<Bucket> label="Time" value={bucket} options={[['day', '30 days'], ['hour', '24 hours']]} onChange={(by) => set({ by })} />
      </Head>
      {stats.error && <Trouble error={stats.error} retry={stats.reload} />}
      {!s && stats.loading && <Waiting />}
      {s && (
        <div class="cards-of">
          <Windows total={s.total} />
          <Calls calls={s.total.calls} />
        </div>
      )}
      {s && <Series rows={s.data} bucket={s.bucket} />}
    </div>
  );
}

function Windows({ total: t }: { total: Figures }) {
  return (
    <article class="card">
      <h2>Windows</h2>
      <p class="muted">A provider reads from its cache what a window starts with if the previous window started with the same.</p>
      <dl class="figures">
        <div><dt>Turns</dt><dd>{count(t.turns)}</dd></div>
        <div><dt>Windows</dt><dd>{count(t.windows)}</dd></div>
        <div><dt>Tokens sent</dt><dd>{brief(t.tokens_in)}</dd></div>
        <div><dt>Cached prefix</dt><dd>{brief(t.prefix_tokens)} · {share(t.prefix_tokens, t.tokens_in)}</dd></div>
        <div><dt>Left out</dt><dd>{brief(t.left_out.tokens)}</dd></div>
        <div><dt>Prefixes cut</dt><dd>{count(t.cuts)}</dd></div>
        <div><dt>Median</dt><dd>{t.p50_us === null ? '–' : micros(t.p50_us)}</dd></div>
        <div><dt>95th percentile</dt><dd>{t.p95_us === null ? '–' : micros(t.p95_us)}</dd></div>
        <div class={failed(t) ? 'bad' : ''}><dt>Failed steps</dt><dd>{count(failed(t))}</dd></div>
      </dl>
      {failed(t) > 0 && <p>{Object.entries(t.failures).map(([why, n]) => <Chip key={why} tone="drop">{count(n)} {why.replaceAll('_', ' ')}</Chip>)}</p>}
    </article>
  );
}

function Calls({ calls }: { calls: Figures['calls'] }) {
  const u = calls.usage;
  return (
    <article class="card">
      <h2>Model calls through the proxy</h2>
      {calls.count === 0 ? (
        <p class="muted">None yet. Point a client's base URL at <code>{location.origin}/v1</code>, and what providers count and what their caches had is shown here.</p>
      ) : (
        <>
          <p class="muted">In the providers' own tokens, for calls whose providers reported them.</p>
          <dl class="figures">
            <div><dt>Calls</dt><dd>{count(calls.count)}</dd></div>
            <div><dt>Tokens in</dt><dd>{brief(u.input_tokens)}</dd></div>
            <div><dt>Read from caches</dt><dd>{brief(u.cached_tokens)} · {share(u.cached_tokens, u.input_tokens)}</dd></div>
            <div><dt>Written to caches</dt><dd>{brief(u.cache_write_tokens)}</dd></div>
            <div><dt>Tokens out</dt><dd>{brief(u.output_tokens)}</dd></div>
          </dl>
        </>
      )}
    </article>
  );
}

function Series({ rows, bucket }: { rows: Schemas['ProjectStatsRow'][]; bucket: Bucket }) {
  const most = Math.max(1, ...rows.map((r) => r.tokens_in));
  const used = rows.findIndex((r) => r.turns || r.windows || r.calls.count);
  if (used < 0) return <p class="nothing">No activity in this period.</p>;
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={bucket === 'day' ? 'Day by day' : 'Hour by hour'}>
      <table class="list series">
        <caption class="muted">
          <span class="swatch part-history" aria-hidden="true" /> cached prefix <span class="swatch part-pending" aria-hidden="true" /> read again; {bucket}s in UTC, newest first
        </caption>
        <thead>
          <tr>
            <th scope="col">{bucket === 'day' ? 'Day' : 'Hour'}</th><th scope="col">Tokens of windows</th><th scope="col" class="number">Turns</th><th scope="col" class="number">Windows</th>
            <th scope="col" class="number">Cached prefix</th><th scope="col" class="number">Left out</th><th scope="col" class="number">Cuts</th><th scope="col" class="number">Median</th><th scope="col" class="number">From caches</th><th scope="col" class="number">Failed</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(used).reverse().map((r) => (
            <tr key={r.at}>
              <th scope="row" class="nowrap"><time dateTime={r.at}>{labels[bucket].format(new Date(r.at))}</time></th>
              <td>
                <span class="stacked" aria-hidden="true">
                  <i class="part-history" style={{ width: `${(100 * r.prefix_tokens) / most}%` }} /><i class="part-pending" style={{ width: `${(100 * (r.tokens_in - r.prefix_tokens)) / most}%` }} />
                </span>{' '}
                <span class="muted">{brief(r.tokens_in)}</span>
              </td>
              <td class="number">{count(r.turns)}</td>
              <td class="number">{count(r.windows)}</td>
              <td class="number">{share(r.prefix_tokens, r.tokens_in)}</td>
              <td class="number">{brief(r.left_out.tokens)}</td>
              <td class="number">{count(r.cuts)}</td>
              <td class="number nowrap">{r.p50_us === null ? '–' : micros(r.p50_us)}</td>
              <td class="number">{r.calls.count ? share(r.calls.usage.cached_tokens, r.calls.usage.input_tokens) : '–'}</td>
              <td class="number">{failed(r) ? <Chip tone="drop">{count(failed(r))}</Chip> : '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
