import { brief, micros, many } from '../lib/format';
import type { XWindow } from '../lib/window';

/** The steps that made a window, in their order: what each decided, took and cost. Choosing one filters the rows. */
export function Pipeline({ window: w, step, onStep }: { window: XWindow; step?: number; onStep?: (step: number) => void }) {
  const own = w.report.filter((r) => r.step === null && r.action !== 'keep').length;
  const decided = (n: number) => w.report.filter((r) => r.step === n && r.action !== 'keep').length;
  const unchanged = w.lost && !w.report.length ? 'unknown' : 'no change';
  return (
    <ol class="pipeline" aria-label="Pipeline">
      {w.pipeline.map((s, i) => {
        const n = decided(i);
        const ok = s.outcome === 'ok';
        return (
          <li key={i}>
            <button type="button" aria-pressed={step === i} class={ok ? '' : 'failed'} onClick={() => onStep?.(i)} title={s.detail || `${s.policy}@${s.version} decided on ${many(n, 'message')}`}>
              <span class="name">
                {s.policy}
                <span class="muted">@{s.version}</span>
              </span>
              <span class="cost">
                <b>{n ? many(n, 'message') : unchanged}</b>
                <span>{micros(s.duration_us)}</span>
                <span>{brief(s.fuel)} fuel</span>
                {!ok && <span class="outcome">{s.outcome.replaceAll('_', ' ')}</span>}
              </span>
            </button>
          </li>
        );
      })}
      <li>
        <button type="button" aria-pressed={step === -1} onClick={() => onStep?.(-1)} title="Decided by Mneme itself: the newest question stays, the window is valid, and older messages are not considered.">
          <span class="name">the law</span>
          <span class="cost"><b>{own ? many(own, 'message') : unchanged}</b><span>Mneme itself</span></span>
        </button>
      </li>
    </ol>
  );
}
