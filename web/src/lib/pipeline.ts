import type { Schemas } from '../api/client';
import type { Step } from './window';

const nameOf = (policy: string) => policy.split('@')[0]!;

/**
 * The steps of a pipeline in the form of settings. A decision contains the versions that ran and the full configs. Settings
 * with these would not follow the live versions and the project's other settings. So the live version is left out, and so
 * is every part of a config that was not set.
 */
export function forSettings(steps: Step[], base: Step[], project: Step[], policies: Schemas['Policy'][]): Step[] {
  return steps.map((step) => {
    const name = nameOf(step.policy);
    const version = step.policy.includes('@') ? Number(step.policy.split('@')[1]) : undefined;
    const pinned = project.some((s) => s.policy === step.policy);
    const live = policies.find((p) => p.name === name)?.live;
    const former = base.find((s) => s.policy === step.policy)?.config as Record<string, unknown> | undefined;
    const own = (project.find((s) => nameOf(s.policy) === name)?.config ?? {}) as Record<string, unknown>;
    const config = Object.fromEntries(
      Object.entries((step.config ?? {}) as Record<string, unknown>).filter(([key, value]) => key in own || !former || former[key] !== value),
    );
    const { config: _, ...rest } = step;
    return {
      ...rest,
      policy: !pinned && version !== undefined && version === live ? name : step.policy,
      ...(Object.keys(config).length > 0 ? { config: config as never } : {}),
    };
  });
}
