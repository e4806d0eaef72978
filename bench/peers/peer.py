"""Does for a peer in Python what bench asks for, one JSON object a line, and answers each with the microseconds that the
peer's own call took: {"us": wall time, "cpu": processor time of the process}. Reading and writing the lines is not timed."""

import asyncio
import hashlib
import json
import os
import re
import sys
import time

FOLDER, NAME = sys.argv[2], sys.argv[1]


class Trimmed:
    """LangChain's trim_messages over messages in memory, with its approximate counter."""

    def __init__(self):
        from langchain_core.messages import trim_messages
        from langchain_core.messages.utils import convert_to_messages

        self.trim, self.convert, self.sessions = trim_messages, convert_to_messages, {}

    def append(self, c):
        self.sessions.setdefault(c["session"], []).extend(self.convert(c["messages"]))

    def window(self, c):
        return self.cut(self.sessions[c["session"]], c)

    def cut(self, messages, c):
        return self.trim(messages, max_tokens=c["tokens"], strategy="last", token_counter="approximate", start_on="human")


class Checkpointed(Trimmed):
    """LangGraph with checkpoints in SQLite, cut by trim_messages."""

    def __init__(self):
        super().__init__()
        import sqlite3

        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import START, MessagesState, StateGraph

        graph = StateGraph(MessagesState)
        graph.add_node("agent", lambda state: {})
        graph.add_edge(START, "agent")
        saver = SqliteSaver(sqlite3.connect(os.path.join(FOLDER, "langgraph.db"), check_same_thread=False))
        self.graph = graph.compile(checkpointer=saver)

    def append(self, c):
        config = {"configurable": {"thread_id": c["session"]}}
        self.graph.update_state(config, {"messages": self.convert(c["messages"])}, as_node="agent")

    def window(self, c):
        state = self.graph.get_state({"configurable": {"thread_id": c["session"]}})
        return self.cut(state.values["messages"], c)


class SQLiteSessions:
    """The OpenAI Agents SDK's SQLiteSession."""

    def __init__(self):
        from agents import SQLiteSession

        self.make, self.sessions, self.loop = SQLiteSession, {}, asyncio.new_event_loop()

    def session(self, c):
        name = c["session"]
        if name not in self.sessions:
            self.sessions[name] = self.make(name, os.path.join(FOLDER, "agents.db"))
        return self.sessions[name]

    def append(self, c):
        self.loop.run_until_complete(self.session(c).add_items(c["messages"]))

    def window(self, c):
        return self.loop.run_until_complete(self.session(c).get_items(limit=c["limit"]))


class SQLite:
    """Tables in SQLite as a programmer makes them by hand: each turn and each memory is one synced transaction."""

    def __init__(self):
        import sqlite3

        self.db = sqlite3.connect(os.path.join(FOLDER, "hand.db"), isolation_level=None)
        self.db.executescript("""
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = FULL;
            CREATE TABLE messages (session TEXT, n INTEGER, body TEXT, PRIMARY KEY (session, n)) WITHOUT ROWID;
            CREATE VIRTUAL TABLE memories USING fts5 (text, tokenize = 'porter');
        """)

    def append(self, c):
        self.db.execute("BEGIN IMMEDIATE")
        first = self.db.execute("SELECT coalesce(max(n) + 1, 0) FROM messages WHERE session = ?", (c["session"],)).fetchone()[0]
        self.db.executemany("INSERT INTO messages VALUES (?, ?, ?)",
                            [(c["session"], first + i, json.dumps(m)) for i, m in enumerate(c["messages"])])
        self.db.execute("COMMIT")

    def window(self, c):
        rows = self.db.execute("SELECT body FROM messages WHERE session = ? ORDER BY n DESC LIMIT ?", (c["session"], c["limit"]))
        return [json.loads(body) for (body,) in rows][::-1]

    def keep(self, c):
        self.db.execute("INSERT INTO memories VALUES (?)", (c["text"],))

    def search(self, c):
        return self.db.execute("SELECT text FROM memories WHERE memories MATCH ? ORDER BY rank LIMIT ?",
                               (" OR ".join(words(c["text"])), c["limit"])).fetchall()


class Tantivy:
    """A tantivy index on disk, committed once, before the first search."""

    def __init__(self):
        import tantivy

        schema = tantivy.SchemaBuilder().add_text_field("text", stored=True, tokenizer_name="en_stem").build()
        self.index, self.changed = tantivy.Index(schema, FOLDER), False
        self.writer, self.document = self.index.writer(), tantivy.Document

    def keep(self, c):
        self.writer.add_document(self.document(text=c["text"]))
        self.changed = True

    def search(self, c):
        if self.changed:
            self.writer.commit()
            self.index.reload()
            self.searcher, self.changed = self.index.searcher(), False
        found = self.searcher.search(self.index.parse_query(" ".join(words(c["text"])), ["text"]), c["limit"]).hits
        return [self.searcher.doc(address)["text"][0] for _, address in found]


def words(text):
    """The words of a text, quoted for the query languages."""
    return [f'"{word}"' for word in re.findall(r"\w+", text)]


class Mem0:
    """mem0 with Qdrant in a local file, without its model, and with an embedding that hashes words, which costs next to nothing."""

    def __init__(self):
        os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=FOLDER, OPENAI_API_KEY="none")
        from mem0 import Memory
        from mem0.utils.factory import EmbedderFactory

        EmbedderFactory.create = classmethod(lambda *_: self)
        self.memory = Memory.from_config({
            "vector_store": {"provider": "qdrant", "config": {
                "path": os.path.join(FOLDER, "qdrant"), "on_disk": True, "embedding_model_dims": 256}},
            "history_db_path": os.path.join(FOLDER, "mem0.db"),
        })

    def embed(self, text, _action=None):
        vector = [0.0] * 256
        for word in text.lower().split():
            vector[hashlib.blake2b(word.encode(), digest_size=1).digest()[0]] += 1
        return vector

    def embed_batch(self, texts, _action=None):
        return [self.embed(text) for text in texts]

    def keep(self, c):
        self.memory.add(c["text"], user_id="bench", infer=False)

    def search(self, c):
        return self.memory.search(c["text"], top_k=c["limit"], filters={"user_id": "bench"})["results"]


peer = {"langchain": Trimmed, "langgraph": Checkpointed, "agents": SQLiteSessions, "sqlite": SQLite, "tantivy": Tantivy,
        "mem0": Mem0}[NAME]()
answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
for line in sys.stdin:
    command = json.loads(line)
    call = getattr(peer, command["do"])
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    result = call(command)
    wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    print(json.dumps({"us": wall / 1000, "cpu": cpu / 1000, "found": len(result or [])}), file=answers, flush=True)
