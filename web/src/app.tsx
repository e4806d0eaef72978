import { lazy, LocationProvider, Route, Router, useLocation } from 'preact-iso';
import { useEffect, useState } from 'preact/hooks';
import { Empty, Head, Trouble, Waiting } from './components/basic';
import { Nav } from './components/nav';
import { HelpKeys, Palette } from './components/palette';
import { listen, useCommands } from './state/keys';
import { to } from './state/query';
import { mayAdminister, operates, who } from './state/session';
import { theme } from './state/stored';
import { useProjects } from './state/projects';
import SignIn, { ask } from './screens/signin';

// Each screen is a separate file, loaded when it is first shown.
const screens = {
  projects: lazy(() => import('./screens/projects')),
  sessions: lazy(() => import('./screens/sessions')),
  session: lazy(() => import('./screens/session')),
  xray: lazy(() => import('./screens/xray')),
  lab: lazy(() => import('./screens/lab')),
  decisions: lazy(() => import('./screens/decisions')),
  decision: lazy(() => import('./screens/decision')),
  memories: lazy(() => import('./screens/memories')),
  memory: lazy(() => import('./screens/memory')),
  recall: lazy(() => import('./screens/recall')),
  policies: lazy(() => import('./screens/policies')),
  policy: lazy(() => import('./screens/policy')),
  boards: lazy(() => import('./screens/boards')),
  board: lazy(() => import('./screens/board')),
  usage: lazy(() => import('./screens/usage')),
  settings: lazy(() => import('./screens/settings')),
  admin: lazy(() => import('./screens/admin')),
};

export function App() {
  const [failure, setFailure] = useState<Parameters<typeof Trouble>[0]['error']>();
  const start = () => {
    setFailure(undefined);
    ask().catch(setFailure);
  };
  useEffect(start, []);
  if (failure) return <main class="alone"><Trouble error={failure} retry={start} /></main>;
  if (who.value === undefined) return <Waiting rows={3} />;
  if (who.value === null) return <SignIn />;
  return (
    <LocationProvider scope="/console">
      <Frame />
    </LocationProvider>
  );
}

function Frame() {
  const { route } = useLocation();
  const { project } = useProjects();
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [error, setError] = useState<unknown>();
  useEffect(() => listen(() => setPalette(true)), []);
  const go = (label: string, keys: string | undefined, path: string) => ({ keys, label, group: 'Go to', run: () => route(path) });
  useCommands([
    go('Projects', 'g h', to.projects()),
    go('Sessions', 'g s', to.sessions(project)),
    go('Decisions', 'g d', to.decisions(project)),
    go('Memories', 'g m', to.memories(project)),
    go('Recall explorer', 'g r', to.recall(project)),
    go('Policies', 'g p', to.policies()),
    go('Boards', 'g b', to.boards()),
    go('Usage', 'g u', to.usage(project)),
    go('Settings of the project', 'g e', to.settings(project)),
    ...(operates.value ? [go('Tenants', undefined, to.admin('tenants'))] : []),
    ...(mayAdminister.value ? [go('Keys', undefined, to.admin('keys')), go('Summaries', undefined, to.admin('usage')), go('Audit log', undefined, to.admin('audit'))] : []),
    { keys: '?', label: 'Keys of this screen', group: 'Console', run: () => setHelp(true) },
    { label: 'Theme: dark', group: 'Console', run: () => (theme.value = 'dark') },
    { label: 'Theme: light', group: 'Console', run: () => (theme.value = 'light') },
    { label: 'Theme: as the system', group: 'Console', run: () => (theme.value = 'system') },
  ]);
  return (
    <div class="frame">
      <a class="skip" href="#main">Skip to the content</a>
      <Nav onPalette={() => setPalette(true)} onHelp={() => setHelp(true)} />
      <main id="main" tabIndex={-1}>
        {error !== undefined && <Empty title="This page could not be loaded"><p>{String(error)}</p><button onClick={() => location.reload()}>Load again</button></Empty>}
        {who.value?.tenant ? <Router onRouteChange={() => setError(undefined)}>
          <Route path="/console/" component={screens.projects} />
          <Route path="/console/p/:p/sessions" component={screens.sessions} />
          <Route path="/console/p/:p/s/:s" component={screens.session} />
          <Route path="/console/p/:p/s/:s/x" component={screens.xray} />
          <Route path="/console/p/:p/s/:s/lab" component={screens.lab} />
          <Route path="/console/p/:p/decisions" component={screens.decisions} />
          <Route path="/console/p/:p/d/:d" component={screens.decision} />
          <Route path="/console/d/:d" component={screens.decision} />
          <Route path="/console/p/:p/memories" component={screens.memories} />
          <Route path="/console/p/:p/memories/:memory" component={screens.memory} />
          <Route path="/console/p/:p/recall" component={screens.recall} />
          <Route path="/console/p/:p/usage" component={screens.usage} />
          <Route path="/console/p/:p/settings" component={screens.settings} />
          <Route path="/console/policies" component={screens.policies} />
          <Route path="/console/policies/:policy" component={screens.policy} />
          <Route path="/console/policies/:policy/v/:version" component={screens.policy} />
          <Route path="/console/boards" component={screens.boards} />
          <Route path="/console/boards/:b" component={screens.board} />
          <Route path="/console/admin/:page" component={screens.admin} />
          <Route default component={Nowhere} />
        </Router> : <Router>
          <Route path="/console/admin/:page" component={screens.admin} />
          <Route default component={screens.admin} page="tenants" />
        </Router>}
      </main>
      {palette && <Palette onClose={() => setPalette(false)} />}
      {help && <HelpKeys onClose={() => setHelp(false)} />}
    </div>
  );
}

function Nowhere() {
  return (
    <div class="screen">
      <Head title="There is no such page" note={<a href={to.projects()}>All projects</a>} />
    </div>
  );
}
