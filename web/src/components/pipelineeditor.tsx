import { useEffect, useState } from 'preact/hooks';
import { api, take, type Schemas } from '../api/client';
import type { Step } from '../lib/window';
import { Hostile } from './text';

type Property = { type?: string; default?: unknown; minimum?: number; maximum?: number; description?: string; enum?: unknown[] };

const parse = (policy: string) => {
  const [name, version] = policy.split('@');
  return { name: name!, version: version === undefined ? undefined : Number(version) };
};

/** The schema of a policy's config. It is cached, because a version never changes. */
const schemas = new Map<string, Promise<Record<string, Property>>>();
function schemaOf(policies: Schemas['Policy'][], policy: string): Promise<Record<string, Property>> {
  const { name, version } = parse(policy);
  const v = version ?? policies.find((p) => p.name === name)?.live;
  if (!v) return Promise.resolve({});
  const id = `${name}@${v}`;
  const found = schemas.get(id);
  if (found) return found;
  const asked = take(api.GET('/api/v1/policies/{policy}/versions/{version}', { params: { path: { policy: name, version: v } } })).then((x) => x.config as Record<string, Property>);
  schemas.set(id, asked);
  asked.catch(() => schemas.delete(id));
  return asked;
}

/** The steps of a pipeline: their order, and the config of each, by its policy's schema. */
export function PipelineEditor({ steps, onChange, policies }: { steps: Step[]; onChange: (steps: Step[]) => void; policies: Schemas['Policy'][] }) {
  const [open, setOpen] = useState<number>();
  const [dragged, setDragged] = useState<number>();
  const move = (from: number, into: number) => {
    if (into < 0 || into >= steps.length || from === into) return;
    const next = [...steps];
    next.splice(into, 0, ...next.splice(from, 1));
    onChange(next);
    setOpen(undefined);
  };
  const change = (i: number, part: Partial<Step>) => onChange(steps.map((s, j) => (j === i ? { ...s, ...part } : s)));
  return (
    <div class="editor">
      <ol aria-label="Steps of the pipeline">
        {steps.map((step, i) => (
          <li
            key={i}
            draggable
            onDragStart={() => setDragged(i)}
            onDragOver={(e) => e.preventDefault()}
            onDrop={(e) => {
              e.preventDefault();
              if (dragged !== undefined) move(dragged, i);
              setDragged(undefined);
            }}
            class={dragged === i ? 'dragged' : ''}
          >
            <div class="editor-step">
              <button type="button" class="quiet small name" aria-expanded={open === i} onClick={() => setOpen(open === i ? undefined : i)}>
                <span aria-hidden="true">{open === i ? '▾' : '▸'}</span> {i + 1} <b><Hostile text={step.policy} /></b>
                {step.guard && <span class="muted" title="Runs first. If it fails, the request is refused.">guard</span>}
                {step.config && Object.keys(step.config).length > 0 && <span class="muted">{Object.keys(step.config).length} set</span>}
              </button>
              <button type="button" class="quiet small" disabled={i === 0} aria-label={`Move ${step.policy} up`} onClick={() => move(i, i - 1)}>↑</button>
              <button type="button" class="quiet small" disabled={i === steps.length - 1} aria-label={`Move ${step.policy} down`} onClick={() => move(i, i + 1)}>↓</button>
              <button type="button" class="quiet small" aria-label={`Take ${step.policy} out`} onClick={() => onChange(steps.filter((_, j) => j !== i))}>✕</button>
            </div>
            {open === i && (
              <label class="check">
                <input type="checkbox" checked={!!step.guard} onChange={(e) => change(i, e.currentTarget.checked ? { guard: true, on_error: undefined } : { guard: undefined })} />
                Guard: runs first, and refuses the request if it fails
              </label>
            )}
            {open === i && <Config step={step} policies={policies} onChange={(config) => change(i, { config })} />}
          </li>
        ))}
      </ol>
      <label class="add">
        <span class="sr">Add a step</span>
        <select
          value=""
          onChange={(e) => {
            if (e.currentTarget.value) onChange([...steps, { policy: e.currentTarget.value }]);
            e.currentTarget.value = '';
          }}
        >
          <option value="">Add a step…</option>
          {policies.map((p) => (
            <optgroup key={p.name} label={p.name}>
              <option value={p.name}>{p.name} (live: {p.live})</option>
              {p.versions.map((v) => <option key={v.version} value={`${p.name}@${v.version}`}>{p.name}@{v.version}</option>)}
            </optgroup>
          ))}
        </select>
      </label>
    </div>
  );
}

/** The config of one step. An empty field means the policy's default. */
function Config({ step, policies, onChange }: { step: Step; policies: Schemas['Policy'][]; onChange: (config: Record<string, never>) => void }) {
  const [schema, setSchema] = useState<Record<string, Property>>();
  useEffect(() => {
    let live = true;
    schemaOf(policies, step.policy).then((s) => live && setSchema(s), () => live && setSchema({}));
    return () => {
      live = false;
    };
  }, [step.policy]);
  const config = (step.config ?? {}) as Record<string, unknown>;
  const set = (name: string, value: unknown) => {
    const next = { ...config };
    if (value === undefined) delete next[name];
    else next[name] = value;
    onChange(next as Record<string, never>);
  };
  if (!schema) return <p class="muted">…</p>;
  const names = Object.keys(schema);
  if (names.length === 0) return <p class="muted">This policy has no settings.</p>;
  return (
    <div class="config">
      {names.map((name) => {
        const property = schema[name]!;
        const id = `config-${step.policy}-${name}`.replace(/[^\w-]/g, '-');
        const value = config[name];
        return (
          <div key={name} class="config-field">
            <label for={id}><code>{name}</code></label>
            {property.type === 'boolean' ? (
              <select id={id} value={value === undefined ? '' : String(value)} onChange={(e) => set(name, e.currentTarget.value === '' ? undefined : e.currentTarget.value === 'true')}>
                <option value="">default ({String(property.default)})</option><option value="true">true</option><option value="false">false</option>
              </select>
            ) : property.type === 'integer' || property.type === 'number' ? (
              <input id={id} type="number" min={property.minimum} max={property.maximum} step={property.type === 'integer' ? 1 : 'any'} placeholder={`default ${property.default}`} value={value === undefined ? '' : String(value)}
                onChange={(e) => set(name, e.currentTarget.value === '' ? undefined : Number(e.currentTarget.value))} aria-describedby={`${id}-says`} />
            ) : (
              <input id={id} placeholder={`default ${JSON.stringify(property.default ?? '')}`} value={value === undefined ? '' : String(value)} onChange={(e) => set(name, e.currentTarget.value === '' ? undefined : e.currentTarget.value)} aria-describedby={`${id}-says`} />
            )}
            {property.description && <p id={`${id}-says`} class="muted"><Hostile text={property.description} /></p>}
          </div>
        );
      })}
    </div>
  );
}
