"""Runs the cases of sdk/client/contract against a real server, with both clients."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mneme_client import AsyncMneme, Mneme, MnemeError

ROOT = Path(__file__).parents[4]
CONTRACT = json.loads((ROOT / "sdk/client/contract/cases.json").read_text())


class Server:
    def __init__(self, data: Path) -> None:
        self.log = open(data / "log", "w+")
        self.process = subprocess.Popen(
            [os.environ["MNEME_SERVER"], "serve", "--listen", "127.0.0.1:0", "--data", str(data / "data"),
             "--proxy-upstreams", "none"], stderr=subprocess.PIPE, stdout=self.log, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("listening on "):
                self.url = line.removeprefix("listening on ").strip()
                break
        self.key = (data / "data/admin.key").read_text().strip()

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    s = Server(tmp_path)
    yield s
    s.stop()


def filled(value: Any, saved: dict[str, Any]) -> Any:
    if isinstance(value, str) and value.startswith("$"):
        return saved[value[1:]]
    if isinstance(value, str) and value.endswith(".wasm"):
        return (ROOT / value[1:]).read_bytes()
    if isinstance(value, list):
        return [filled(v, saved) for v in value]
    if isinstance(value, dict):
        return {k: filled(v, saved) for k, v in value.items()}
    return value


def contains(got: Any, want: Any) -> bool:
    """Reports whether got has all of want: lists begin with it, objects have its members."""
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and contains(got[k], v) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(got) >= len(want) and all(map(contains, got, want))
    return bool(got == want)


async def answer_of(client: Any, case: dict[str, Any], saved: dict[str, Any]) -> Any:
    target = client
    for name in case["call"].split("."):
        target = target.session("chat") if name == "session" else getattr(target, name)
    got = target(*filled(case.get("args", []), saved), **filled(case.get("named", {}), saved))
    if inspect.isawaitable(got):
        return await got
    if hasattr(got, "__aiter__"):
        return [row async for row in got]
    return list(got) if inspect.isgenerator(got) else got


async def run(client: Any) -> None:
    saved: dict[str, Any] = {}
    for case in CONTRACT["cases"]:
        try:
            got = await answer_of(client, case, saved)
        except MnemeError as error:
            want = case.get("error")
            assert want, f"{case}: {error}"
            assert error.status == want["status"] and error.code == want["code"] and error.request_id, f"{case}: {error}"
            continue
        assert "error" not in case, f"{case} answers {got}"
        assert contains(got, filled(case.get("want", got), saved)), f"{case} answers {got}"
        if "rows" in case:
            assert len(got) == case["rows"] or case.get("at_least") and len(got) > case["rows"], f"{case} yields {got}"
        for name, where in case.get("save", {}).items():
            value = got
            for part in where.split(".") if where else []:
                value = value[int(part)] if part.isdigit() else value[part]
            saved[name] = value


def test_cases_with_both_clients(tmp_path: Path) -> None:
    reached = {}
    for kind in ("sync", "async"):
        (tmp_path / kind).mkdir()
        server = Server(tmp_path / kind)
        seen: set[tuple[str, str]] = set()

        def note(request: httpx.Request, seen: set[tuple[str, str]] = seen) -> None:
            seen.add((request.method, request.url.raw_path.decode().partition("?")[0]))

        async def note_later(request: httpx.Request) -> None:
            note(request)

        try:
            if kind == "sync":
                with Mneme(server.url, server.key) as client:
                    client.http.event_hooks["request"].append(note)
                    asyncio.run(run(client))
            else:
                async def whole() -> None:
                    async with AsyncMneme(server.url, server.key) as client:
                        client.http.event_hooks["request"].append(note_later)
                        await run(client)

                asyncio.run(whole())
            description = httpx.get(server.url + "/openapi.json").json()
        finally:
            server.stop()
        reached[kind] = operations(description, seen)
    assert reached["sync"] == reached["async"]
    everything = {o["operationId"] for item in description["paths"].values() for o in item.values()}
    left_out = {id for id in everything for pattern in CONTRACT["left_out"] if re.fullmatch(pattern, id)}
    assert reached["sync"] & left_out == set(), "reached, and said to be left out"
    assert everything - reached["sync"] - left_out == set(), "neither reached nor left out"
    for pattern in CONTRACT["left_out"]:
        assert any(re.fullmatch(pattern, id) for id in everything), f"{pattern} is no operation"


def operations(description: dict[str, Any], seen: set[tuple[str, str]]) -> set[str]:
    """Returns the operationIds of requests. A path without parameters comes before one with them."""
    out = set()
    paths = sorted(description["paths"], key=lambda p: p.count("{"))
    for method, path in seen:
        for template in paths:
            if re.fullmatch(re.sub(r"{[^}]*}", "[^/]+", template), path) and method.lower() in description["paths"][template]:
                out.add(description["paths"][template][method.lower()]["operationId"])
                break
        else:
            raise AssertionError(f"{method} {path} is not described")
    return out


def test_turns_are_stored_whole_or_not_at_all(server: Server) -> None:
    with Mneme(server.url, server.key) as client:
        session = client.session("s")
        with session.turn() as turn:
            turn.user("Hello")
            window = turn.window()
            assert [m["content"] for m in window["messages"]] == ["Hello"]
            turn.add({"role": "assistant", "content": "Hi!"})
        assert turn.result is not None and turn.result["turn"] == 1
        with pytest.raises(ValueError), session.turn() as turn:
            turn.user("never")
            raise ValueError
        assert [m["content"] for m in session.messages()] == ["Hello", "Hi!"]


def test_streams_go_on_after_they_broke(server: Server) -> None:
    with Mneme(server.url, server.key) as client, Mneme(server.url, server.key) as writer:
        board = client.boards
        writer.boards.post("b", "zero")
        opened = 0

        def cut(response: httpx.Response) -> None:
            nonlocal opened
            if response.request.url.path.endswith("/stream"):
                opened += 1
                if opened == 1:
                    inner = response.iter_lines

                    def broken() -> Iterator[str]:
                        for line in inner():
                            yield line
                            if line == "":
                                raise httpx.ReadError("cut")

                    response.iter_lines = broken  # type: ignore[method-assign]

        client.http.event_hooks["response"].append(cut)
        got = []
        for event in board.stream("b", since="2000-01-01T00:00:00Z"):
            got.append(event.data["memory"]["content"])
            if len(got) == 3:
                break
            writer.boards.post("b", str(len(got)))
        assert got == ["zero", "1", "2"]
        assert opened == 2


def test_requests_are_repeated_with_the_same_key() -> None:
    keys: list[str] = []
    answers: list[httpx.Response | httpx.TransportError] = [
        httpx.ConnectError("no"), httpx.Response(503, headers={"Retry-After": "0"}), httpx.Response(429),
        httpx.Response(201, json={"turn": 1})]

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        got = answers[len(keys) - 1]
        if isinstance(got, httpx.TransportError):
            raise got
        return got

    with Mneme("http://x", "k", max_retries=3, transport=httpx.MockTransport(answer)) as client:
        assert client.session("s").append([{"role": "user", "content": "x"}]) == {"turn": 1}
        assert len(keys) == 4 and len(set(keys)) == 1
    with Mneme("http://x", "k", transport=httpx.MockTransport(lambda r: httpx.Response(500, text="oh"))) as client:
        with pytest.raises(MnemeError) as caught:
            client.admin.whoami()
        assert caught.value.status == 500
