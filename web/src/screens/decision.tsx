import { useLocation } from 'preact-iso';
import { api, Failure, take } from '../api/client';
import { Trouble, Waiting } from '../components/basic';
import { useLoad } from '../state/load';
import { loadProjects, projects } from '../state/projects';
import { to } from '../state/query';

/** A short link to a decision: finds its session and opens the X-ray. */
export default function DecisionLink({ p, d }: { p?: string; d: string }) {
  const { route } = useLocation();
  const found = useLoad(
    async (signal) => {
      if (!p && !projects.peek()) await loadProjects();
      const names = p ? [p] : (projects.peek() ?? []).map((x) => x.id);
      for (const project of names) {
        try {
          const decision = await take(api.GET('/api/v1/projects/{project}/decisions/{decision}', { params: { path: { project, decision: d } }, signal }));
          route(to.xray(project, decision.session_id, d), true);
          return true;
        } catch (failure) {
          if (!(failure instanceof Failure) || failure.status !== 404) throw failure;
        }
      }
      throw new Failure(404, { title: 'There is no such decision', detail: 'Decisions are kept for a time that the settings say.' });
    },
    [p, d],
  );
  return <div class="screen">{found.error ? <Trouble error={found.error} retry={found.reload} /> : <Waiting />}</div>;
}
