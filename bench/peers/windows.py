"""Makes the windows of peers in Python. It reads one JSON object a line: {"do": "append", "session", "messages"} stores a
turn that has ended, and {"do": "window", "session", "messages", "tokens", "limit"} answers {"messages": [...]}, the
messages that the model would get now. They are OpenAI's chat messages; those in a window request begin the open turn."""

import asyncio
import json
import sys

NAME = sys.argv[1]


class Trimmed:
    """LangChain's trim_messages with its approximate counter, and the options that its documentation uses."""

    def __init__(self):
        from langchain_core.messages import trim_messages
        from langchain_core.messages.utils import convert_to_messages, convert_to_openai_messages

        self.trim, self.read, self.write, self.sessions = trim_messages, convert_to_messages, convert_to_openai_messages, {}

    def append(self, c):
        self.sessions.setdefault(c["session"], []).extend(self.read(c["messages"]))

    def window(self, c):
        messages = self.sessions.get(c["session"], []) + self.read(c["messages"])
        return self.write(self.trim(messages, max_tokens=c["tokens"], strategy="last", token_counter="approximate",
                                    start_on="human", end_on=("human", "tool")))


class Agents:
    """The OpenAI Agents SDK's SQLiteSession: its runner reads the last items of the session when a turn begins, removes calls
    without results, and adds what the turn says. ToolOutputTrimmer shortens results before each call."""

    def __init__(self, limited, trimmed):
        from agents import RunConfig, SQLiteSession
        from agents.extensions import ToolOutputTrimmer
        from agents.memory import SessionSettings
        from agents.models.chatcmpl_converter import Converter
        from agents.run_config import CallModelData, ModelInputData
        from agents.run_internal.session_persistence import prepare_input_with_session

        self.session, self.settings, self.prepare, self.write = SQLiteSession, SessionSettings, prepare_input_with_session, Converter
        self.data = lambda items: CallModelData(ModelInputData(items, None), None, None)
        self.trimmer = ToolOutputTrimmer() if trimmed else None
        self.limited, self.sessions, self.loop = limited, {}, asyncio.new_event_loop()

    def of(self, c):
        return self.sessions.setdefault(c["session"], self.session(c["session"], ":memory:"))

    @staticmethod
    def items(messages):
        for m in messages:
            if m["role"] == "tool":
                yield {"type": "function_call_output", "call_id": m["tool_call_id"], "output": m.get("content") or ""}
                continue
            if m.get("content"):
                yield {"role": m["role"], "content": m["content"]}
            for call in m.get("tool_calls") or []:
                yield {"type": "function_call", "call_id": call["id"], **call["function"]}

    def append(self, c):
        self.loop.run_until_complete(self.of(c).add_items(list(self.items(c["messages"]))))

    def window(self, c):
        begin = next((i for i, m in enumerate(c["messages"]) if m["role"] != "user"), len(c["messages"]))
        settings = self.settings(limit=c["limit"] if self.limited else None)
        prepared, _ = self.loop.run_until_complete(
            self.prepare(list(self.items(c["messages"][:begin])), self.of(c), None, settings))
        items = prepared + list(self.items(c["messages"][begin:]))
        if self.trimmer:
            items = self.trimmer(self.data(items)).input
        return self.write.items_to_messages(items)


peer = {"langchain": Trimmed, "agents": lambda: Agents(True, False), "agents-trimmer": lambda: Agents(False, True)}[NAME]()
answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
for line in sys.stdin:
    command = json.loads(line)
    print(json.dumps({"messages": getattr(peer, command["do"])(command) or []}), file=answers, flush=True)
