import { useState } from 'preact/hooks';
import { curl, python, typescript, type Call } from '../lib/snippets';
import { Copy, Dialog, Segmented } from './basic';
import { Hostile } from './text';

const languages = { curl, python, typescript };
type Language = keyof typeof languages;

/** The request behind a window, as code. */
export function CopyAs({ project, session, d, request, onClose }: { project: string; session: string; d: string; request?: unknown; onClose: () => void }) {
  const [language, setLanguage] = useState<Language>('curl');
  const [what, setWhat] = useState<'window' | 'decision'>(d === 'live' ? 'window' : 'decision');
  const base = `/api/v1/projects/${encodeURIComponent(project)}`;
  const call: Call =
    what === 'decision'
      ? { method: 'GET', path: `${base}/decisions/${encodeURIComponent(d)}` }
      : { method: 'POST', path: `${base}/context`, body: request ?? { session_id: session, explain: true } };
  const code = languages[language](location.origin, call);
  return (
    <Dialog title="Copy as code" onClose={onClose} wide>
      <div class="row-tools">
        <Segmented label="Language" value={language} options={[['curl', 'curl'], ['python', 'Python'], ['typescript', 'TypeScript']]} onChange={setLanguage} />
        {d !== 'live' && <Segmented label="Request" value={what} options={[['decision', 'Read this decision'], ['window', 'Ask for such a window']]} onChange={setWhat} />}
        <Copy text={() => code}>Copy</Copy>
      </div>
      <pre class="code" tabIndex={0}>
        <Hostile text={code} />
      </pre>
      <p class="muted">The key is read from the environment variable MNEME_KEY.</p>
    </Dialog>
  );
}
