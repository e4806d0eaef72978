import { modules, type Server } from './kit';

const project = 'shop';
export const p = `/api/v1/projects/${project}`;

/** Texts that are markup, scripts or tricks of direction. Each would set window.pwned, or show as what it is not. */
export const hostile = [
  '<script>window.pwned=1</script>',
  '<img src=x onerror="window.pwned=2">',
  '<svg onload="window.pwned=3"></svg>',
  '"><script>window.pwned=4</script>',
  "'><img src=x onerror=window.pwned=5>",
  '<iframe srcdoc="<script>parent.pwned=6</script>"></iframe>',
  '<a href="javascript:window.pwned=7">click</a>',
  'javascript:window.pwned=8',
  '<body onload=window.pwned=9>',
  '<details open ontoggle=window.pwned=10>x</details>',
  '<math><mi//xlink:href="data:x,<script>window.pwned=11</script>">',
  '<style>*{background:url(//evil.example/12)}</style>',
  '<link rel=stylesheet href=//evil.example/13>',
  '<meta http-equiv=refresh content="0;url=//evil.example/14">',
  '<form action=//evil.example/15><button>x</button></form>',
  '<object data="data:text/html,<script>window.pwned=16</script>"></object>',
  '{{constructor.constructor("window.pwned=17")()}}',
  '${window.pwned=18}',
  '<template><img src=x onerror=window.pwned=19></template>',
  '<noscript><p title="</noscript><img src=x onerror=window.pwned=20>">',
  '![x](javascript:window.pwned=21) [x](javascript:window.pwned=21)',
  '\u202Egnp.exe\u202C and \u2066hidden\u2069 and \u200Bzero',
  '</textarea></title></xmp><img src=x onerror=window.pwned=23>',
  '<input autofocus onfocus=window.pwned=24>',
  '<video><source onerror=window.pwned=25></video>',
  '__proto__', 'constructor', 'toString',
];

const track = (n: number) => ({ role: 'assistant', content: null, tool_calls: [{ id: `call_${n}`, type: 'function', function: { name: 'track_order', arguments: JSON.stringify({ order: n }) } }] });
const shipped = (n: number, rows = 6) => ({
  role: 'tool', tool_call_id: `call_${n}`,
  content: JSON.stringify({ order: n, status: n % 3 ? 'shipped' : 'delayed', parcels: Array.from({ length: rows }, (_, i) => ({ id: `P-${n}-${i}`, weight: 300 + i, town: ['Utrecht', 'Ghent', 'Lille'][i % 3] })) }),
});

/** A talk of so many turns with a tool in each, and a window for each. */
async function talk(server: Server, session: string, turns: number, format: string, budget?: object): Promise<string> {
  let last = '';
  for (let n = 1; n <= turns; n++) {
    const question = { role: 'user', content: n === turns ? `And where is order ${n}? Please be exact.` : `Where is order ${n}? I have waited for ${n + 2} days.` };
    const window = await server.call('POST', `${p}/context`, {
      session_id: session, format, pending: [question], pending_format: 'openai.chat', system: 'You are the help desk of a shop. Answer in one sentence.', memories: { limit: 3 }, ...(budget ? { budget } : {}),
    });
    last = window.decision_id;
    await server.call('POST', `${p}/turns`, {
      session_id: session, agent: 'desk', decision_id: last, format: 'openai.chat',
      messages: [question, track(n), shipped(n, n === 9 ? 220 : 6), { role: 'assistant', content: `Order ${n} is ${n % 3 ? 'shipped' : 'delayed'}; it leaves from Utrecht in parcel P-${n}-0.` }],
    });
  }
  return last;
}

/** Fills a project with what every screen has something to show of. */
export async function fill(server: Server) {
  await server.call('PUT', p, { name: 'Shop' });
  for (const [key, content, category] of [
    ['ships-from', 'Parcels leave from Utrecht on weekdays.', 'core'],
    ['customer-name', 'The customer is called Ada.', 'conversation'],
    ['strike', 'The carrier is on strike in Lille today.', 'daily'],
  ]) {
    await server.call('POST', `${p}/memories`, { key, content, category, tags: ['shop'], importance: 0.6 });
  }
  await server.call('POST', `${p}/memories`, { key: 'ships-from', content: 'Parcels leave from Ghent on weekdays, no longer from Utrecht.', category: 'core', tags: ['shop', 'moved'], importance: 0.8 });
  const decision = await talk(server, 'order-17-help', 42, 'openai.chat', { max_tokens: 4000 });
  await talk(server, 'claude-desk', 12, 'anthropic.messages', { max_tokens: 3000 });
  for (const [namespace, key, content] of [
    [['customers', 'ada'], 'wrapping', 'Ada wants no gift wrap.'],
    [['customers', 'ben'], 'wrapping', 'Ben wants red gift wrap.'],
    [['carriers'], 'contact', 'The carrier answers on weekdays.'],
  ]) {
    await server.call('POST', `${p}/memories`, { namespace, key, content, category: 'core' });
  }
  await server.call('POST', `${p}/sessions`, { id: 'nightly-report', kind: 'background', title: 'Nightly report' });
  await server.call('POST', `${p}/turns`, { session_id: 'nightly-report', messages: [{ role: 'user', content: 'Report of the day' }, { role: 'assistant', content: 'Nothing was lost.' }] });
  // Thinking, and a delegation to another agent.
  await server.call('POST', `${p}/turns`, {
    session_id: 'thoughts', format: 'anthropic.messages',
    messages: [{ role: 'user', content: 'Is 1,009 a prime?' }, { role: 'assistant', content: [{ type: 'thinking', thinking: 'It is not divided by 2, 3, 5, 7, 11, 13, 17, 19, 23, 29 or 31.', signature: 'c2ln' }, { type: 'text', text: 'Yes.' }] }],
  });
  await server.call('POST', `${p}/turns`, {
    session_id: 'thoughts', agent: 'researcher', delegation_id: 'del_1', format: 'openai.chat',
    messages: [{ role: 'user', content: 'Look up the next prime.' }, { role: 'assistant', content: 'It is 1,013.' }],
  });
  await fillTenant(server);
  return { project, decision };
}

/** What belongs to the tenant: a policy with two versions, a board with agents and values, keys, and changed settings. */
async function fillTenant(server: Server) {
  for (const file of modules) await server.upload('latest-only', file);
  const desk = '/api/v1/boards/desk';
  await server.call('PUT', desk, { name: 'The desk', retention_days: 30 });
  await server.call('PUT', `${desk}/agents/mia`, { display_name: 'Mia at the desk', lead: true });
  await server.call('PUT', `${desk}/agents/walt`, { display_name: 'Walt in the warehouse' });
  await server.call('PUT', `${desk}/values/on-hold`, { value: { orders: [17, 23], until: 'Friday' } });
  await server.call('POST', `${desk}/memory`, { content: 'Order 17 is on hold: the label has no house number.', tags: ['status'], source: 'walt' });
  await server.call('POST', `${desk}/memory`, { content: '@mia which number is it?', source: 'walt', is_chat: true });
  await server.call('POST', `${desk}/memory`, { content: '@walt 14 b, second yard.', source: 'mia', is_chat: true });
  await server.call('POST', `${desk}/memory`, { content: '/pause', source: 'mia', is_chat: true });
  await server.call('PATCH', `${p}/settings`, { session_history_depth: 12 });
  await server.call('PATCH', `${p}/settings`, { session_history_depth: null, summary_keep_last: 10 });
  await server.call('POST', '/api/v1/keys', { name: 'desk', role: 'agent', projects: ['shop'] });
}

/** Puts the hostile texts wherever a text can be stored. */
export async function fillHostile(server: Server): Promise<string> {
  const all = hostile.join('\n');
  await server.call('PUT', '/api/v1/projects/evil', { name: hostile[1] });
  const e = '/api/v1/projects/evil';
  await server.call('POST', `${e}/sessions`, { id: 'evil', title: hostile[0] });
  for (const [i, text] of hostile.entries()) {
    await server.call('POST', `${e}/turns`, {
      session_id: 'evil', format: 'openai.chat',
      messages: [
        { role: 'user', content: text, name: 'x' },
        { role: 'assistant', content: text, tool_calls: [{ id: `c${i}`, type: 'function', function: { name: text.slice(0, 60), arguments: text } }] },
        { role: 'tool', tool_call_id: `c${i}`, content: text },
        { role: 'assistant', content: [{ type: 'text', text }], reasoning: text },
      ],
    });
    if (i === 0) await server.call('POST', `${e}/memories`, { namespace: [text, 'below'], key: 'evil', content: text });
    await server.call('POST', `${e}/memories`, { key: `evil-${i}`, content: text, category: 'core', tags: [text.slice(0, 60)], source: text.slice(0, 60) });
  }
  await server.call('POST', `${e}/turns`, {
    session_id: 'evil', format: 'anthropic.messages',
    messages: [
      { role: 'user', content: [{ type: 'text', text: all }, { type: 'image', source: { type: 'url', url: 'https://evil.example/pixel.png?' + encodeURIComponent(hostile[1]!) } }] },
      { role: 'assistant', content: [{ type: 'thinking', thinking: all, signature: 'x' }, { type: 'text', text: all }] },
    ],
  });
  const window = await server.call('POST', `${e}/context`, { session_id: 'evil', system: all, pending: [{ role: 'user', content: all }], memories: { query: '*', limit: 20 }, budget: { max_tokens: 3000, max_messages: 30 } });
  await server.call('PUT', '/api/v1/boards/evil', { name: hostile[0] });
  for (const text of hostile) await server.call('POST', '/api/v1/boards/evil/memory', { content: text, tags: ['x'], source: text.slice(0, 60), is_chat: true });
  await server.call('PUT', '/api/v1/boards/evil/agents/mallory', { display_name: hostile[1] });
  await server.call('PATCH', `${e}/settings`, { summary_model: hostile[1] });
  await server.call('POST', '/api/v1/keys', { name: hostile[0], role: 'reader', preferred_name: hostile[1] });
  return window.decision_id;
}
