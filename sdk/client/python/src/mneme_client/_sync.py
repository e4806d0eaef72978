"""The synchronous client. sync.sh makes this file from _async.py; change that one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, List

import httpx

from ._call import (Call, Config, Event, EventParser, Json, failure_of, next_page, pause_before_retry, query, result_of,
                    rows_of, segments, without_none, write)
from ._errors import ConnectionFailed, MnemeError

Message = Mapping[str, Any]


class Mneme:
    """A client of one project of a Mneme server.

    base_url and api_key default to MNEME_URL and MNEME_API_KEY. timeout is that of each attempt, in seconds; max_retries
    limits the repetitions of requests that had no answer, or 408, 429 or 5xx. transport replaces httpx's own.
    """

    def __init__(self, base_url: str | None = None, api_key: str | None = None, project: str = "default",
                 timeout: float = 10.0, max_retries: int = 2,
                 transport: httpx.BaseTransport | None = None) -> None:
        self.config = Config.of(base_url, api_key, project, timeout, max_retries)
        self.http = httpx.Client(base_url=self.config.base_url, headers=self.config.headers(), timeout=timeout,
                                      transport=transport)
        self.memories = Memories(self)
        self.tools = Tools(self)
        self.decisions = Decisions(self)
        self.policies = Policies(self)
        self.boards = Boards(self)
        self.projects = Projects(self)
        self.sessions = Sessions(self)
        self.admin = Admin(self)

    def __enter__(self) -> Mneme:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self.http.close()

    def session(self, id: str, agent: str | None = None, delegation_id: str | None = None) -> Session:
        """Returns a session. It need not exist: its first turn makes it."""
        return Session(self, id, agent, delegation_id)

    def send(self, call: Call) -> Any:
        """Sends a request and returns the decoded answer. It raises MnemeError."""
        for attempt in range(self.config.max_retries + 1):
            response: httpx.Response | None = None
            error: MnemeError | None = None
            try:
                response = self.http.request(call.method, call.path, params=list(call.query), content=call.bytes(),
                                                   headers=call.all_headers())
            except httpx.TransportError as cause:
                error = ConnectionFailed(0, "", f"{call.method} {call.path}: {cause or type(cause).__name__}")
            else:
                if response.status_code < 400:
                    return result_of(call, response)
                error = failure_of(response)
            wait = pause_before_retry(attempt, response)
            if wait is None or attempt == self.config.max_retries:
                raise error
            time.sleep(wait)
        raise AssertionError("unreachable")

    def pages(self, call: Call) -> Iterator[Json]:
        """Yields the rows of a list, page by page."""
        following: Call | None = call
        while following is not None:
            page: Json = self.send(following)
            for row in rows_of(page):
                yield row
            following = next_page(following, page)

    def events(self, call: Call) -> Iterator[Event]:
        """Yields the events of a stream. A stream that breaks is continued after the last event."""
        parser, attempt = EventParser(), 0
        while True:
            headers = {**call.headers, "Accept": "text/event-stream"}
            if parser.last_id:
                headers["Last-Event-ID"] = parser.last_id
            response: httpx.Response | None = None
            error: MnemeError
            try:
                limits = httpx.Timeout(self.config.timeout, read=60.0)  # the server sends a comment every 15 seconds
                with self.http.stream(call.method, call.path, params=list(call.query), headers=headers,
                                            timeout=limits) as response:
                    if response.status_code >= 400:
                        response.read()
                        raise failure_of(response)
                    for line in response.iter_lines():
                        event = parser.line(line)
                        if event is not None:
                            attempt = 0
                            yield event
                error = ConnectionFailed(0, "", f"{call.path}: the stream ended")
                response = None
            except httpx.TransportError as cause:
                error, response = ConnectionFailed(0, "", f"{call.path}: {cause or type(cause).__name__}"), None
            except MnemeError as refused:
                error = refused
            parser.name, parser.lines = "", []
            wait = pause_before_retry(attempt, response)
            if wait is None or attempt >= self.config.max_retries:
                raise error
            attempt += 1
            time.sleep(wait)

    def at(self, rest: str, *ids: str | int) -> str:
        """Returns a path of the project."""
        return segments("/api/v1/projects/{}" + rest, self.config.project, *ids)


class Session:
    """A conversation: its turns, and the windows that a model sees."""

    def __init__(self, client: Mneme, id: str, agent: str | None, delegation_id: str | None) -> None:
        self.client, self.id, self.agent, self.delegation_id = client, id, agent, delegation_id

    def turn(self, format: str | None = None) -> Turn:
        """Begins a turn: `with session.turn() as turn`. It is stored as a whole at the end, and not at all if the body raises."""
        return Turn(self, format)

    def append(self, messages: Sequence[Message], format: str | None = None, *, decision_id: str | None = None,
                     idempotency_key: str | None = None, **more: Any) -> Json:
        """Stores a turn: what one run of the agent added. more has other members of the request, such as rewind_to."""
        body = without_none({"session_id": self.id, "agent": self.agent, "delegation_id": self.delegation_id,
                             "format": format, "messages": list(messages), "decision_id": decision_id, **more})
        answer: Json = self.client.send(write("POST", self.client.at("/turns"), body, idempotency_key))
        return answer

    def window(self, budget: Message | int | None = None, system: Any = None,
                     pending: Sequence[Message] | None = None, memories: Message | bool | None = None,
                     pipeline: Sequence[Message] | None = None, format: str | None = None, explain: bool | None = None,
                     **more: Any) -> Json:
        """Assembles what the model should see now. A budget may be a number of tokens."""
        viewer = without_none({"agent": self.agent, "delegation_id": self.delegation_id}) or None
        body = without_none({
            "session_id": self.id, "budget": {"max_tokens": budget} if isinstance(budget, int) else budget,
            "system": system, "pending": None if pending is None else list(pending),
            "memories": {} if memories is True else None if memories is False else memories,
            "pipeline": None if pipeline is None else list(pipeline), "format": format, "explain": explain,
            "viewer": viewer, **more})
        answer: Json = self.client.send(Call("POST", self.client.at("/context"), body=body))
        return answer

    def messages(self, superseded: bool | None = None, order: str | None = None) -> Iterator[Json]:
        """Yields the stored messages, oldest first."""
        where = self.client.at("/sessions/{}/messages", self.id)
        return self.client.pages(Call("GET", where, query(superseded=superseded, order=order)))

    def message(self, id: str) -> Json:
        """Returns one message."""
        answer: Json = self.client.send(Call("GET", self.client.at("/sessions/{}/messages/{}", self.id, id)))
        return answer

    def messages_of_turn(self, turn: int) -> Iterator[Json]:
        """Yields the messages of a turn."""
        return self.client.pages(Call("GET", self.client.at("/sessions/{}/turns/{}", self.id, turn)))

    def stream(self) -> Iterator[Event]:
        """Yields turn, rewind, summary and decision events from now on."""
        return self.client.events(Call("GET", self.client.at("/sessions/{}/stream", self.id)))

    def get(self) -> Json:
        """Returns the session's own fields, such as its title and its numbers of turns and tokens."""
        answer: Json = self.client.send(Call("GET", self.client.at("/sessions/{}", self.id)))
        return answer

    def export(self) -> Json:
        """Returns the session as a file, which sessions.import_file takes."""
        answer: Json = self.client.send(Call("GET", self.client.at("/sessions/{}/export", self.id)))
        return answer

    def rewind(self, turn: int, if_revision: int | None = None) -> Json:
        """Supersedes all turns after this one."""
        body = without_none({"to_turn": turn, "if_revision": if_revision})
        answer: Json = self.client.send(write("POST", self.client.at("/sessions/{}/rewind", self.id), body))
        return answer

    def fork(self, id: str | None = None, turn: int | None = None) -> Json:
        """Copies the session, up to a turn, into a new one."""
        body = without_none({"as": id, "at_turn": turn})
        answer: Json = self.client.send(write("POST", self.client.at("/sessions/{}/fork", self.id), body))
        return answer

    def delete(self) -> None:
        """Deletes the session with its messages."""
        self.client.send(Call("DELETE", self.client.at("/sessions/{}", self.id)))


class Turn:
    """A turn in progress. Its messages are pending until the block ends."""

    def __init__(self, session: Session, format: str | None) -> None:
        self.session, self.format = session, format
        self.pending: list[Message] = []
        self.decision_id: str | None = None
        self.result: Json | None = None  # what storing it answered

    def add(self, *messages: Message) -> None:
        """Adds messages in the turn's format, such as a model's reply or the results of tools."""
        self.pending.extend(messages)

    def user(self, content: Any) -> None:
        """Adds a user's message."""
        self.add({"role": "user", "content": content})

    def window(self, budget: Message | int | None = None, **more: Any) -> Json:
        """Assembles the window for the next call of the model, with the pending messages."""
        window = self.session.window(budget, pending=self.pending, **{"format": self.format, **more})
        self.decision_id = window.get("decision_id") or self.decision_id
        return window

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if kind is None and self.pending:
            self.result = self.session.append(self.pending, self.format, decision_id=self.decision_id)


class _Resource:
    def __init__(self, client: Mneme) -> None:
        self.client = client

    def _get(self, where: str, **parameters: Any) -> Json:
        answer: Json = self.client.send(Call("GET", where, query(**parameters)))
        return answer

    def _send(self, call: Call) -> Json:
        answer: Json = self.client.send(call)
        return answer


class Memories(_Resource):
    """Long-term memories of the project."""

    def store(self, content: str | None = None, *, key: str | None = None, idempotency_key: str | None = None,
                    **more: Any) -> Json:
        """Stores a memory. more has its other members: category, tags, namespace, value, metadata, expires_at and so on."""
        body = without_none({"content": content, "key": key, **more})
        return self._send(write("POST", self.client.at("/memories"), body, idempotency_key))

    def recall(self, query: str, limit: int | None = None, **more: Any) -> List[Json]:
        """Returns the best hits, the best first."""
        body = without_none({"query": query, "limit": limit, **more})
        answer = self._send(Call("POST", self.client.at("/memories/recall"), body=body))
        hits: List[Json] = answer["data"]
        return hits

    def list(self, **filters: Any) -> Iterator[Json]:
        """Yields memories. filters are the parameters of the list: category, tags, namespace, since and so on."""
        return self.client.pages(Call("GET", self.client.at("/memories"), query(**filters)))

    def get(self, key: str, namespace: Sequence[str] | None = None) -> Json:
        """Returns a memory. It raises NotFound."""
        return self._get(self.client.at("/memories/{}", key), namespace=_listed(namespace))

    def patch(self, key: str, changes: Message, namespace: Sequence[str] | None = None,
                    if_match: str | None = None) -> Json:
        """Changes members of a memory; None clears one. if_match is the ETag that the memory must have."""
        call = write("PATCH", self.client.at("/memories/{}", key), dict(changes))
        return self._send(_matching(call, namespace, if_match))

    def forget(self, key: str, namespace: Sequence[str] | None = None, if_match: str | None = None) -> None:
        """Forgets a memory with its history. It raises NotFound."""
        call = write("DELETE", self.client.at("/memories/{}", key))
        self.client.send(_matching(call, namespace, if_match))

    def forget_matching(self, **filters: Any) -> Json:
        """Forgets all memories that match; dry_run only lists them."""
        return self._send(Call("POST", self.client.at("/memories/forget"), body=without_none(filters)))

    def history(self, key: str, namespace: Sequence[str] | None = None) -> Iterator[Json]:
        """Yields the earlier versions of a memory."""
        return self.client.pages(Call("GET", self.client.at("/memories/{}/history", key),
                                      query(namespace=_listed(namespace))))

    def why(self, key: str, namespace: Sequence[str] | None = None) -> Json:
        """Returns the versions of a memory with their trust and the words that they are from. It raises NotFound."""
        return self._send(Call("GET", self.client.at("/memories/{}/why", key), query(namespace=_listed(namespace))))

    def namespaces(self) -> Iterator[Json]:
        """Yields the namespaces that have memories."""
        return self.client.pages(Call("GET", self.client.at("/namespaces")))


class Tools(_Resource):
    """Memory tools for models."""

    def list(self, format: str = "openai") -> List[Json]:
        """Returns the tools as OpenAI, Anthropic or MCP describe tools."""
        answer = self._get("/api/v1/tools", format=format)
        tools: List[Json] = answer["tools"]
        return tools

    def call(self, name: str, arguments: Any, session_id: str | None = None, **more: Any) -> Json:
        """Carries out a model's call. A mistake of the model is an answer with is_error."""
        body = without_none({"name": name, "arguments": arguments, "session_id": session_id, **more})
        return self._send(write("POST", self.client.at("/tools/call"), body))


class Decisions(_Resource):
    """The records that explain and reproduce windows."""

    def get(self, id: str) -> Json:
        """Returns a decision with its report, message by message."""
        return self._get(self.client.at("/decisions/{}", id))

    def list(self, **filters: Any) -> Iterator[Json]:
        """Yields decisions, newest first. filters: session_id, since, until, outcome, policy, cut."""
        return self.client.pages(Call("GET", self.client.at("/decisions"), query(**filters)))

    def replay(self, id: str) -> Json:
        """Computes the window again. equal says whether it is the same, byte for byte."""
        return self._send(Call("POST", self.client.at("/decisions/{}/replay", id)))

    def fork(self, id: str, **changes: Any) -> Json:
        """Makes another window of the decision's inputs."""
        return self._send(Call("POST", self.client.at("/decisions/{}/fork", id), body=without_none(changes)))


class Policies(_Resource):
    """Policies of the tenant."""

    def list(self) -> Iterator[Json]:
        """Yields policies, the built-in ones too."""
        return self.client.pages(Call("GET", "/api/v1/policies"))

    def get(self, name: str) -> Json:
        """Returns a policy with its versions."""
        return self._get(segments("/api/v1/policies/{}", name))

    def upload(self, name: str, module: bytes) -> Json:
        """Uploads a module, which becomes the policy's next version."""
        return self._send(write("POST", "/api/v1/policies", content=module, media="application/wasm",
                                      query=query(name=name)))

    def run(self, name: str, version: int, **request: Any) -> Json:
        """Tries a version on a transcript, and stores nothing."""
        where = segments("/api/v1/policies/{}/versions/{}/run", name, version)
        return self._send(Call("POST", where, body=without_none(request)))

    def replay(self, name: str, version: int, **request: Any) -> Json:
        """Shows what a version would change on real sessions."""
        where = segments("/api/v1/policies/{}/versions/{}/replay", name, version)
        body = without_none({"project_id": self.client.config.project, **request})
        return self._send(Call("POST", where, body=body))

    def live(self, name: str, version: int) -> Json:
        """Chooses the version that the bare name means."""
        return self._send(Call("PUT", segments("/api/v1/policies/{}/live", name), body={"version": version}))

    def delete(self, name: str) -> None:
        """Deletes a policy with all its versions."""
        self.client.send(Call("DELETE", segments("/api/v1/policies/{}", name)))


class Boards(_Resource):
    """Boards on which agents and people write."""

    def post(self, board: str, content: str, **more: Any) -> Json:
        """Writes an entry; the first one makes the board."""
        where = segments("/api/v1/boards/{}/memory", board)
        return self._send(write("POST", where, without_none({"content": content, **more})))

    def list(self) -> Iterator[Json]:
        """Yields the boards that the key reaches."""
        return self.client.pages(Call("GET", "/api/v1/boards"))

    def entries(self, board: str, **filters: Any) -> Iterator[Json]:
        """Yields entries, newest first. filters: tags, is_chat, since, until, q, order."""
        return self.client.pages(Call("GET", segments("/api/v1/boards/{}/memory", board), query(**filters)))

    def stream(self, board: str, **filters: Any) -> Iterator[Event]:
        """Yields entries as they are written."""
        return self.client.events(Call("GET", segments("/api/v1/boards/{}/memory/stream", board), query(**filters)))

    def put_value(self, board: str, key: str, value: Any) -> Json:
        """Stores a value under a key."""
        return self._send(Call("PUT", segments("/api/v1/boards/{}/values/{}", board, key), body={"value": value}))

    def get_value(self, board: str, key: str) -> Any:
        """Returns the value under a key."""
        return (self._get(segments("/api/v1/boards/{}/values/{}", board, key)))["value"]

    def delete(self, board: str) -> None:
        """Deletes a board with all that is on it."""
        self.client.send(Call("DELETE", segments("/api/v1/boards/{}", board)))


class Projects(_Resource):
    """Projects of the tenant."""

    def list(self) -> Iterator[Json]:
        """Yields the projects that the key reaches."""
        return self.client.pages(Call("GET", "/api/v1/projects"))

    def create(self, id: str, name: str | None = None) -> Json:
        """Makes a project. It raises ProjectExists."""
        return self._send(write("POST", "/api/v1/projects", without_none({"id": id, "name": name})))

    def get(self, id: str) -> Json:
        """Returns a project."""
        return self._get(segments("/api/v1/projects/{}", id))

    def settings(self) -> Json:
        """Returns the settings of the client's project."""
        return self._get(self.client.at("/settings"))

    def change_settings(self, **changes: Any) -> Json:
        """Changes settings of the client's project; None resets one to its default."""
        return self._send(Call("PATCH", self.client.at("/settings"), body=changes))

    def delete(self, id: str) -> None:
        """Deletes a project with its sessions, memories and decisions."""
        self.client.send(Call("DELETE", segments("/api/v1/projects/{}", id)))


class Sessions(_Resource):
    """Sessions of the project."""

    def list(self, **filters: Any) -> Iterator[Json]:
        """Yields sessions. filters: sort, agent, kind, since, q, namespace, fields."""
        return self.client.pages(Call("GET", self.client.at("/sessions"), query(**filters)))

    def create(self, id: str, **more: Any) -> Json:
        """Makes a session with a title, an agent or a kind. It raises SessionExists."""
        return self._send(write("POST", self.client.at("/sessions"), without_none({"id": id, **more})))

    def import_file(self, file: Message) -> Json:
        """Imports an exported session."""
        return self._send(write("POST", self.client.at("/sessions/import"), dict(file)))


class Admin(_Resource):
    """What a tenant's administrator does."""

    def whoami(self) -> Json:
        """Returns what the server knows of the key: its role, its projects, its limits."""
        return self._get("/api/v1/whoami")

    def keys(self) -> Iterator[Json]:
        """Yields the keys, without their secrets."""
        return self.client.pages(Call("GET", "/api/v1/keys"))

    def create_key(self, role: str, **more: Any) -> Json:
        """Makes a key, whose secret is shown this once."""
        return self._send(write("POST", "/api/v1/keys", without_none({"role": role, **more})))

    def delete_key(self, id: str) -> None:
        """Deletes a key, which stops working at once."""
        self.client.send(Call("DELETE", segments("/api/v1/keys/{}", id)))

    def audit(self) -> Iterator[Json]:
        """Yields the entries of the audit log, newest first."""
        return self.client.pages(Call("GET", "/api/v1/audit"))

    def usage(self) -> Json:
        """Returns what providers were asked for summaries and vectors."""
        return self._get("/api/v1/usage")


def _listed(namespace: Sequence[str] | None) -> List[str] | None:
    return None if namespace is None else list(namespace)


def _matching(call: Call, namespace: Sequence[str] | None, if_match: str | None) -> Call:
    headers = dict(call.headers)
    if if_match is not None:
        headers["If-Match"] = if_match
    return Call(call.method, call.path, query(namespace=_listed(namespace)), call.body, headers=headers)
