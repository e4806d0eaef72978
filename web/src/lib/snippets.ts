/** A request as code to paste. It never contains the key, but reads it from the environment. */
export interface Call {
  method: string;
  path: string;
  body?: unknown;
}

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

export function curl(origin: string, call: Call): string {
  const lines = [`curl -sS -X ${call.method} ${quote(origin + call.path)}`, `-H "Authorization: Bearer $MNEME_KEY"`];
  if (call.body !== undefined) {
    lines.push(`-H 'Content-Type: application/json'`, `-d ${quote(JSON.stringify(call.body))}`);
  }
  return lines.join(' \\\n  ') + '\n';
}

/** A JSON value as a Python literal. */
function literal(value: unknown, indent: string): string {
  const inner = indent + '    ';
  if (value === null || value === undefined) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (typeof value === 'string') return JSON.stringify(value); // Python understands all of JSON's escapes
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return `[\n${value.map((v) => inner + literal(v, inner)).join(',\n')},\n${indent}]`;
  }
  if (typeof value === 'object') {
    const entries = Object.entries(value as Record<string, unknown>).filter(([, v]) => v !== undefined);
    if (entries.length === 0) return '{}';
    return `{\n${entries.map(([k, v]) => `${inner}${JSON.stringify(k)}: ${literal(v, inner)}`).join(',\n')},\n${indent}}`;
  }
  return String(value);
}

export function python(origin: string, call: Call): string {
  const body = call.body === undefined ? '' : `\nbody = ${literal(call.body, '')}\n`;
  return `import json
import os
import urllib.request
${body}
request = urllib.request.Request(
    ${JSON.stringify(origin + call.path)},
    method=${JSON.stringify(call.method)},${call.body === undefined ? '' : '\n    data=json.dumps(body).encode(),'}
    headers={
        "Authorization": "Bearer " + os.environ["MNEME_KEY"],
        "Content-Type": "application/json",
    },
)
with urllib.request.urlopen(request) as answer:
    print(json.load(answer))
`;
}

export function typescript(origin: string, call: Call): string {
  const body = call.body === undefined ? '' : `\n  body: JSON.stringify(${JSON.stringify(call.body, null, 2).replaceAll('\n', '\n  ')}),`;
  return `const answer = await fetch(${JSON.stringify(origin + call.path)}, {
  method: ${JSON.stringify(call.method)},
  headers: {
    Authorization: \`Bearer \${process.env.MNEME_KEY}\`,
    'Content-Type': 'application/json',
  },${body}
});
console.log(await answer.json());
`;
}
