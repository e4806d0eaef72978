"""Drives a library of a provider, unchanged, through the proxy: `clients.py LIBRARY SCENARIO...`.

The proxy's address is in MNEME_URL and its key in MNEME_KEY. Each scenario has a session of its own and prints a line of
its name, a tab, and what it came to.
"""

import asyncio
import json
import os
import sys

URL, KEY, RUN = os.environ["MNEME_URL"], os.environ["MNEME_KEY"], os.environ["MNEME_RUN"]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
          "required": ["city", "degrees"], "additionalProperties": False}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
QUESTION = [{"role": "user", "content": "What is there?"}]


def headers(library, scenario):
    return {"X-Mneme-Key": KEY, "X-Mneme-Session": f"{RUN}-{library}-{scenario}"}


def failure(run, *kinds):
    try:
        run()
    except Exception as e:
        return type(e).__name__ + " " + str(getattr(e, "status_code", ""))
    return "no error"


class OpenAIChat:
    name, model = "openai-chat", "gpt-4.1"

    def __init__(self, scenario, retries=0, key=None):
        import openai
        more = headers(self.name, scenario)
        if key:
            more["X-Mneme-Key"] = key
        self.c = openai.OpenAI(base_url=URL + "/v1", api_key="sk-client", max_retries=retries, default_headers=more)

    def ask(self, messages=QUESTION, **more):
        return self.c.chat.completions.create(model=self.model, messages=messages, **more)

    def text(self):
        return self.ask().choices[0].message.content

    def stream(self):
        return "".join(c.choices[0].delta.content or "" for c in self.ask(stream=True) if c.choices)

    def tools(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS, "strict": True}}]
        messages = list(QUESTION)
        with self.c.chat.completions.stream(model=self.model, messages=messages, tools=tools) as s:
            said = s.get_final_completion().choices[0].message
        messages.append({"role": "assistant", "tool_calls": [
            {"id": t.id, "type": "function", "function": {"name": t.function.name, "arguments": t.function.arguments}}
            for t in said.tool_calls]})
        for call in said.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.loads(call.function.arguments)["city"]})
        return str(len(said.tool_calls)) + " " + self.ask(messages, tools=tools).choices[0].message.content

    def structured(self):
        import pydantic

        class Weather(pydantic.BaseModel):
            city: str
            degrees: int

        got = self.c.chat.completions.parse(model=self.model, messages=QUESTION, response_format=Weather)
        return str(got.choices[0].message.parsed.degrees)

    def image(self):
        return self.ask([{"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}]}]).choices[0].message.content

    def errors(self):
        unknown = type(self)("errors", key="mk_nobody")
        return ", ".join([failure(self.ask), failure(self.ask), failure(self.stream), failure(unknown.ask)])

    def retry(self):
        return type(self)("retry", 2).text()

    def abort(self):
        for _ in self.ask(stream=True):
            break
        stream = self.ask(stream=True)
        next(iter(stream))
        stream.close()
        return self.text()


class OpenAIResponses(OpenAIChat):
    name, model = "openai-responses", "gpt-5.6"

    def ask(self, input=QUESTION, **more):
        return self.c.responses.create(model=self.model, input=input, store=False, **more)

    def text(self):
        return self.ask().output_text

    def stream(self):
        return "".join(e.delta for e in self.ask(stream=True) if e.type == "response.output_text.delta")

    def tools(self):
        tools = [{"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": True}]
        with self.c.responses.stream(model=self.model, input=QUESTION, store=False, tools=tools) as s:
            said = s.get_final_response().output
        calls = [o for o in said if o.type == "function_call"]
        then = QUESTION + [{"type": "function_call", "call_id": o.call_id, "name": o.name, "arguments": o.arguments} for o in calls]
        then += [{"type": "function_call_output", "call_id": o.call_id, "output": json.loads(o.arguments)["city"]} for o in calls]
        return str(len(calls)) + " " + self.ask(then, tools=tools).output_text

    def structured(self):
        import pydantic

        class Weather(pydantic.BaseModel):
            city: str
            degrees: int

        return str(self.c.responses.parse(model=self.model, input=QUESTION, store=False, text_format=Weather).output_parsed.degrees)

    def image(self):
        return self.ask([{"role": "user", "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64," + PIXEL}]}]).output_text

    def thinks(self):
        first = self.ask(include=["reasoning.encrypted_content"])
        history = QUESTION + [o.to_dict() for o in first.output] + [{"role": "user", "content": "Sure?"}]
        return first.output_text + " " + self.ask(history, include=["reasoning.encrypted_content"]).output_text


class Anthropic(OpenAIChat):
    name, model = "anthropic", "claude-opus-5-5"

    def __init__(self, scenario, retries=0, key=None):
        import anthropic
        more = headers(self.name, scenario)
        if key:
            more["X-Mneme-Key"] = key
        self.c = anthropic.Anthropic(base_url=URL, api_key="sk-client", max_retries=retries, default_headers=more)

    def ask(self, messages=QUESTION, **more):
        return self.c.messages.create(model=self.model, max_tokens=1000, messages=messages, **more)

    def said(self, message):
        return "".join(b.text for b in message.content if b.type == "text")

    def text(self):
        return self.said(self.ask())

    def stream(self):
        with self.c.messages.stream(model=self.model, max_tokens=1000, messages=QUESTION) as s:
            return "".join(s.text_stream)

    def tools(self):
        tools = [{"name": "weather", "input_schema": PARAMETERS}]
        with self.c.messages.stream(model=self.model, max_tokens=1000, messages=QUESTION, tools=tools) as s:
            said = s.get_final_message()
        calls = [b for b in said.content if b.type == "tool_use"]
        then = QUESTION + [{"role": "assistant", "content": [b.to_dict() for b in said.content]}]
        then += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": b.id, "content": b.input["city"]} for b in calls]}]
        return str(len(calls)) + " " + self.said(self.ask(then, tools=tools))

    def structured(self):
        import pydantic

        class Weather(pydantic.BaseModel):
            city: str
            degrees: int

        return str(self.c.messages.parse(model=self.model, max_tokens=1000, messages=QUESTION, output_format=Weather).parsed_output.degrees)

    def image(self):
        return self.said(self.ask([{"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}]}]))

    def thinks(self):
        thinking = {"type": "adaptive"}
        first = self.ask(thinking=thinking)
        assert first.content[0].type == "thinking" and first.content[0].signature, first.content
        history = QUESTION + [{"role": "assistant", "content": [b.to_dict() for b in first.content]}, {"role": "user", "content": "Sure?"}]
        return self.said(first) + " " + self.said(self.ask(history, thinking=thinking))

    def abort(self):
        with self.c.messages.stream(model=self.model, max_tokens=1000, messages=QUESTION) as s:
            next(iter(s))
        with self.c.messages.stream(model=self.model, max_tokens=1000, messages=QUESTION) as s:
            next(iter(s))
        return self.text()


class LangChain(OpenAIChat):
    name = "langchain"

    def __init__(self, scenario, retries=0, key=None):
        from langchain_openai import ChatOpenAI
        more = headers(self.name, scenario)
        if key:
            more["X-Mneme-Key"] = key
        self.m = ChatOpenAI(model=self.model, base_url=URL + "/v1", api_key="sk-client", max_retries=retries, default_headers=more)

    def ask(self):
        return self.m.invoke("What is there?")

    def text(self):
        return self.ask().content

    def stream(self):
        return "".join(c.content for c in self.m.stream("What is there?"))

    def tools(self):
        from langchain_core.messages import HumanMessage, ToolMessage
        bound = self.m.bind_tools([{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}])
        history = [HumanMessage("What is there?")]
        history.append(bound.invoke(history))
        calls = history[-1].tool_calls
        history += [ToolMessage(c["args"]["city"], tool_call_id=c["id"]) for c in calls]
        return str(len(calls)) + " " + bound.invoke(history).content

    def structured(self):
        return str(self.m.with_structured_output({"title": "Weather", **SCHEMA}).invoke("What is there?")["degrees"])

    def image(self):
        from langchain_core.messages import HumanMessage
        return self.m.invoke([HumanMessage([
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}])]).content

    def abort(self):
        for _ in range(2):
            stream = self.m.stream("What is there?")
            next(stream)
            stream.close()
        return self.text()


class Agents:
    name = "openai-agents"

    def __init__(self, scenario):
        import openai
        import agents
        agents.set_tracing_disabled(True)
        agents.set_default_openai_client(openai.AsyncOpenAI(
            base_url=URL + "/v1", api_key="sk-client", max_retries=0, default_headers=headers(self.name, scenario)), use_for_tracing=False)

        @agents.function_tool
        def weather(city: str) -> str:
            """The weather of a city."""
            return city

        self.agents = agents
        self.agent = agents.Agent(name="A", instructions="Be brief.", model="gpt-5.6", tools=[weather])

    def text(self):
        return asyncio.run(self.agents.Runner.run(self.agent, "What is there?")).final_output

    def stream(self):
        async def run():
            r = self.agents.Runner.run_streamed(self.agent, "What is there?")
            async for _ in r.stream_events():
                pass
            return r.final_output
        return asyncio.run(run())

    def tools(self):
        r = asyncio.run(self.agents.Runner.run(self.agent, "What is there?"))
        return str(sum(i.type == "tool_call_item" for i in r.new_items)) + " " + r.final_output


class LangGraph:
    """A graph with a checkpointer, which keeps the conversation between two questions."""
    name = "langgraph"

    def __init__(self, scenario):
        from langchain_core.tools import tool
        from langchain_openai import ChatOpenAI
        from langgraph.checkpoint.memory import MemorySaver
        from langgraph.prebuilt import create_react_agent

        @tool
        def weather(city: str) -> str:
            """The weather of a city."""
            return city

        model = ChatOpenAI(model="gpt-4.1", base_url=URL + "/v1", api_key="sk-client", max_retries=0,
                           default_headers=headers(self.name, scenario))
        self.graph = create_react_agent(model, [weather], checkpointer=MemorySaver())

    def ask(self, question="What is there?"):
        return self.graph.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": "t"}})["messages"]

    def text(self):
        return self.ask()[-1].content

    def tools(self):
        messages = self.ask()
        return str(sum(m.type == "tool" for m in messages)) + " " + messages[-1].content

    def goes_on(self):
        return self.text() + " " + self.ask("And there?")[-1].content


class PydanticAI:
    name = "pydantic-ai"

    def __init__(self, scenario):
        import openai
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
        client = openai.AsyncOpenAI(base_url=URL + "/v1", api_key="sk-client", max_retries=0,
                                    default_headers=headers(self.name, scenario))
        self.agent = Agent(OpenAIChatModel("gpt-4.1", provider=OpenAIProvider(openai_client=client)), instructions="Be brief.")
        self.calls = 0

        @self.agent.tool_plain
        def weather(city: str) -> str:
            self.calls += 1
            return city

    def text(self):
        return self.agent.run_sync("What is there?").output

    def stream(self):
        async def run():
            async with self.agent.run_stream("What is there?") as r:
                return await r.get_output()
        return asyncio.run(run())

    def tools(self):
        output = self.text()
        return str(self.calls) + " " + output

    def goes_on(self):
        async def run():
            first = await self.agent.run("What is there?")
            then = await self.agent.run("And there?", message_history=first.all_messages())
            return first.output + " " + then.output
        return asyncio.run(run())


class LiteLLM:
    """It adds members of its own to messages, which a strict provider refuses, so they are sent without these."""
    name = "litellm"

    def __init__(self, scenario):
        import litellm
        self.more = {"model": "openai/gpt-4.1", "api_base": URL + "/v1", "api_key": "sk-client", "num_retries": 0,
                     "extra_headers": headers(self.name, scenario)}
        self.complete = litellm.completion

    def plain(self, message):
        return {name: value for name, value in message.model_dump().items() if name in ("role", "content", "tool_calls")}

    def ask(self, messages=QUESTION, **more):
        return self.complete(messages=messages, **self.more, **more)

    def text(self):
        return self.ask().choices[0].message.content

    def stream(self):
        return "".join(c.choices[0].delta.content or "" for c in self.ask(stream=True))

    def tools(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
        said = self.ask(tools=tools).choices[0].message
        history = QUESTION + [self.plain(said)]
        for call in said.tool_calls:
            history.append({"role": "tool", "tool_call_id": call.id, "content": json.loads(call.function.arguments)["city"]})
        return str(len(said.tool_calls)) + " " + self.ask(history, tools=tools).choices[0].message.content

    def goes_on(self):
        first = self.ask().choices[0].message
        history = QUESTION + [self.plain(first), {"role": "user", "content": "And there?"}]
        return first.content + " " + self.ask(history).choices[0].message.content


LIBRARIES = {c.name: c for c in (OpenAIChat, OpenAIResponses, Anthropic, LangChain, LangGraph, PydanticAI, LiteLLM, Agents)}
for scenario in sys.argv[2:]:
    print(scenario, getattr(LIBRARIES[sys.argv[1]](scenario), scenario)(), sep="\t", flush=True)
