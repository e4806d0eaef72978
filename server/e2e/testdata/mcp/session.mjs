// A session of the protocol's TypeScript client: `node session.mjs http URL` with the key in MNEME_KEY, or
// `node session.mjs stdio COMMAND ARGUMENT...`. It ends with an error where anything is not as it should be.
import assert from "node:assert/strict";
import {Client} from "@modelcontextprotocol/sdk/client/index.js";
import {StdioClientTransport} from "@modelcontextprotocol/sdk/client/stdio.js";
import {StreamableHTTPClientTransport} from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [kind, target, ...args] = process.argv.slice(2);

function transport(key) {
  if (kind === "stdio") {
    return new StdioClientTransport({command: target, args, env: process.env, stderr: "inherit"});
  }
  return new StreamableHTTPClientTransport(new URL(target), {requestInit: {headers: {Authorization: `Bearer ${key}`}}});
}

const client = new Client({name: "acceptance", version: "1"});
await client.connect(transport(process.env.MNEME_KEY));
assert.equal(client.getServerVersion().name, "mneme");
assert.ok(client.getInstructions());
await client.ping();

// With the list the client learns the output schemas, and holds each structured answer against them from here on.
const {tools} = await client.listTools();
const hints = Object.fromEntries(tools.map(t => [t.name,
  [t.annotations.readOnlyHint, t.annotations.destructiveHint, t.annotations.idempotentHint, t.annotations.openWorldHint]]));
assert.deepEqual(hints, {
  memory_forget: [false, true, true, false],
  memory_get: [true, false, true, false],
  memory_list: [true, false, true, false],
  memory_recall: [true, false, true, false],
  memory_store: [false, true, false, false],
});

const call = async (name, args) => {
  const result = await client.callTool({name, arguments: args});
  assert.equal(result.content.length, 1);
  return {...result, text: result.content[0].text};
};
const stored = await call("memory_store", {key: "favourite colour", content: "Ada's favourite colour is teal. 👩‍🚀"});
assert.equal(stored.structuredContent.key, "favourite colour");
assert.equal(stored.structuredContent.created, true);
const recalled = await call("memory_recall", {query: "which colour does Ada like?"});
assert.match(recalled.text, /teal\. 👩‍🚀/u);
assert.equal(recalled.structuredContent.memories[0].key, "favourite colour");
const wrong = await call("memory_store", {key: "k", content: "c", importance: "very", colour: 1});
assert.equal(wrong.isError, true);
assert.match(wrong.text, /importance: .*colour: /);
const several = await Promise.all([..."abcdefgh"].map(key => call("memory_store", {key, content: `letter ${key}`})));
assert.deepEqual(several.map(r => r.structuredContent.key), [..."abcdefgh"]);
await assert.rejects(() => client.callTool({name: "memory_erase", arguments: {}}), /unknown tool/);
for (const key of ["favourite colour", ..."abcdefgh"]) {
  assert.equal((await call("memory_forget", {key})).structuredContent.forgotten, true);
}
assert.equal((await call("memory_forget", {key: "a"})).structuredContent.forgotten, false);
assert.deepEqual((await call("memory_recall", {query: "*"})).structuredContent.memories, []);
await client.close();

if (kind === "http") {
  await assert.rejects(() => new Client({name: "acceptance", version: "1"}).connect(transport("mk_unknown")), /401|Unauthorized/);
}
console.log("all as it should be");
