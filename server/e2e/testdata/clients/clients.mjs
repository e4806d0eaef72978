// Drives a library of a provider, unchanged, through the proxy: `node clients.mjs LIBRARY SCENARIO...`. The proxy's address
// is in MNEME_URL and its key in MNEME_KEY. Each scenario has a session of its own and prints a line of its name, a tab,
// and what it came to.
import OpenAI from "openai";
import {zodResponseFormat, zodTextFormat} from "openai/helpers/zod";
import Anthropic from "@anthropic-ai/sdk";
import {generateText, streamText, Output, stepCountIs, tool} from "ai";
import {createOpenAI} from "@ai-sdk/openai";
import {createAnthropic} from "@ai-sdk/anthropic";
import {z} from "zod";

const {MNEME_URL: url, MNEME_KEY: key, MNEME_RUN: run} = process.env;
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
const question = [{role: "user", content: "What is there?"}];
const weather = z.object({city: z.string(), degrees: z.number()});
const parameters = {type: "object", properties: {city: {type: "string"}}, required: ["city"], additionalProperties: false};
const [library, ...scenarios] = process.argv.slice(2);
const headers = (scenario, mine = key) => ({"X-Mneme-Key": mine, "X-Mneme-Session": `${run}-${library}-${scenario}`});

const failure = async (ask) => {
  try {
    await ask();
  } catch (e) {
    return `${e.constructor.name} ${e.status ?? e.statusCode ?? ""}`;
  }
  return "no error";
};

// chat and responses of openai, and anthropic: each gives its scenarios.
const chat = (scenario, maxRetries = 0, mine) => {
  const c = new OpenAI({baseURL: url + "/v1", apiKey: "sk-client", maxRetries, defaultHeaders: headers(scenario, mine)});
  const ask = (messages = question, more = {}) => c.chat.completions.create({model: "gpt-4.1", messages, ...more});
  const text = async () => (await ask()).choices[0].message.content;
  const stream = async () => {
    let said = "";
    for await (const chunk of await ask(question, {stream: true})) said += chunk.choices[0]?.delta.content ?? "";
    return said;
  };
  return {
    text, stream,
    tools: async () => {
      const tools = [{type: "function", function: {name: "weather", parameters, strict: true}}];
      const said = await c.chat.completions.stream({model: "gpt-4.1", messages: question, tools}).finalMessage();
      const calls = said.tool_calls.map(({id, function: {name, arguments: args}}) =>
        ({id, type: "function", function: {name, arguments: args}}));
      const results = calls.map((t) => ({role: "tool", tool_call_id: t.id, content: JSON.parse(t.function.arguments).city}));
      return `${calls.length} ${(await ask([...question, {role: "assistant", tool_calls: calls}, ...results], {tools})).choices[0].message.content}`;
    },
    structured: async () => String((await c.chat.completions.parse({model: "gpt-4.1", messages: question,
      response_format: zodResponseFormat(weather, "weather")})).choices[0].message.parsed.degrees),
    image: async () => (await ask([{role: "user", content: [{type: "text", text: "What is this?"},
      {type: "image_url", image_url: {url: "data:image/png;base64," + pixel}}]}])).choices[0].message.content,
    errors: async () => [await failure(ask), await failure(ask), await failure(stream),
      await failure(chat("errors", 0, "mk_nobody").text)].join(", "),
    retry: () => chat("retry", 2).text(),
    abort: async () => {
      for (const _ of [1, 2]) {
        const s = await ask(question, {stream: true});
        for await (const _ of s) break;
        s.controller.abort();
      }
      return text();
    },
  };
};

const responses = (scenario, maxRetries = 0, mine) => {
  const c = new OpenAI({baseURL: url + "/v1", apiKey: "sk-client", maxRetries, defaultHeaders: headers(scenario, mine)});
  const ask = (input = question, more = {}) => c.responses.create({model: "gpt-5.6", input, store: false, ...more});
  const text = async () => (await ask()).output_text;
  const stream = async () => {
    let said = "";
    for await (const e of await ask(question, {stream: true})) if (e.type === "response.output_text.delta") said += e.delta;
    return said;
  };
  return {
    text, stream,
    tools: async () => {
      const tools = [{type: "function", name: "weather", parameters, strict: true}];
      const said = (await c.responses.stream({model: "gpt-5.6", input: question, store: false, tools}).finalResponse()).output;
      const calls = said.filter((o) => o.type === "function_call");
      const then = calls.map((o) => ({type: "function_call", call_id: o.call_id, name: o.name, arguments: o.arguments}));
      const results = calls.map((o) => ({type: "function_call_output", call_id: o.call_id, output: JSON.parse(o.arguments).city}));
      return `${calls.length} ${(await ask([...question, ...then, ...results], {tools})).output_text}`;
    },
    structured: async () => String((await c.responses.parse({model: "gpt-5.6", input: question, store: false,
      text: {format: zodTextFormat(weather, "weather")}})).output_parsed.degrees),
    image: async () => (await ask([{role: "user", content: [{type: "input_text", text: "What is this?"},
      {type: "input_image", detail: "auto", image_url: "data:image/png;base64," + pixel}]}])).output_text,
    thinks: async () => {
      const include = ["reasoning.encrypted_content"];
      const first = await ask(question, {include});
      const again = await ask([...question, ...first.output, {role: "user", content: "Sure?"}], {include});
      return `${first.output_text} ${again.output_text}`;
    },
    errors: async () => [await failure(ask), await failure(ask), await failure(stream),
      await failure(responses("errors", 0, "mk_nobody").text)].join(", "),
    retry: () => responses("retry", 2).text(),
    abort: async () => {
      for (const _ of [1, 2]) {
        const s = await ask(question, {stream: true});
        for await (const _ of s) break;
        s.controller.abort();
      }
      return text();
    },
  };
};

const anthropic = (scenario, maxRetries = 0, mine) => {
  const c = new Anthropic({baseURL: url, apiKey: "sk-client", maxRetries, defaultHeaders: headers(scenario, mine)});
  const body = (messages, more) => ({model: "claude-opus-5-5", max_tokens: 1000, messages, ...more});
  const ask = (messages = question, more = {}) => c.messages.create(body(messages, more));
  const said = (m) => m.content.filter((b) => b.type === "text").map((b) => b.text).join("");
  const text = async () => said(await ask());
  const stream = () => c.messages.stream(body(question)).finalText();
  return {
    text, stream,
    tools: async () => {
      const tools = [{name: "weather", input_schema: parameters}];
      const first = await c.messages.stream(body(question, {tools})).finalMessage();
      const calls = first.content.filter((b) => b.type === "tool_use");
      const content = calls.map((b) => ({type: "tool_result", tool_use_id: b.id, content: b.input.city}));
      return `${calls.length} ${said(await ask([...question, {role: "assistant", content: first.content}, {role: "user", content}], {tools}))}`;
    },
    image: async () => said(await ask([{role: "user", content: [{type: "text", text: "What is this?"},
      {type: "image", source: {type: "base64", media_type: "image/png", data: pixel}}]}])),
    thinks: async () => {
      const thinking = {type: "adaptive"};
      const first = await ask(question, {thinking});
      const again = await ask([...question, {role: "assistant", content: first.content}, {role: "user", content: "Sure?"}], {thinking});
      return `${said(first)} ${said(again)}`;
    },
    errors: async () => [await failure(ask), await failure(ask), await failure(stream),
      await failure(anthropic("errors", 0, "mk_nobody").text)].join(", "),
    retry: () => anthropic("retry", 2).text(),
    abort: async () => {
      for (const _ of [1, 2]) {
        const s = c.messages.stream(body(question));
        for await (const _ of s) break;
        s.abort();
      }
      return text();
    },
  };
};

// The AI SDK, over each of the three APIs.
const aisdk = (model) => (scenario, maxRetries = 0, mine) => {
  const m = model(headers(scenario, mine));
  const ask = (more = {}) => generateText({model: m, maxRetries, messages: question, ...more});
  return {
    text: async () => (await ask()).text,
    stream: async () => {
      let text = "";
      for await (const piece of streamText({model: m, maxRetries, messages: question}).textStream) text += piece;
      return text;
    },
    tools: async () => {
      const tools = {weather: tool({inputSchema: z.object({city: z.string()}), execute: async ({city}) => city})};
      const got = await ask({tools, stopWhen: stepCountIs(5)});
      return `${got.steps[0].toolCalls.length} ${got.text}`;
    },
    structured: async () => String((await ask({output: Output.object({schema: weather})})).output.degrees),
    image: async () => (await ask({messages: [{role: "user", content: [{type: "text", text: "What is this?"},
      {type: "image", image: pixel, mediaType: "image/png"}]}]})).text,
    errors: async () => [await failure(ask), await failure(ask), await failure(() => aisdk(model)("errors", 0, "mk_nobody").text())].join(", "),
    retry: () => aisdk(model)("retry", 2).text(),
  };
};
const openai = (headers) => createOpenAI({baseURL: url + "/v1", apiKey: "sk-client", headers});

const libraries = {
  "openai-node-chat": chat, "openai-node-responses": responses, "anthropic-node": anthropic,
  "ai-chat": aisdk((h) => openai(h).chat("gpt-4.1")), "ai-responses": aisdk((h) => openai(h).responses("gpt-5.6")),
  "ai-anthropic": aisdk((h) => createAnthropic({baseURL: url + "/v1", apiKey: "sk-client", headers: h})("claude-opus-5-5")),
};
for (const scenario of scenarios) console.log(`${scenario}\t${await libraries[library](scenario)[scenario]()}`);
