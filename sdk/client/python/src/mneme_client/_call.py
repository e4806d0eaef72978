"""What one request is, and how it is repeated. Nothing here does I/O: the synchronous and the asynchronous client share it."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from ._errors import MnemeError, error_of

VERSION = "0.1.0"
Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A request. A write carries an Idempotency-Key, which is made once: each repetition sends the same."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    content: bytes | None = None
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bool = False  # the answer is bytes

    def bytes(self) -> bytes | None:
        if self.content is not None:
            return self.content
        if self.body is None:
            return None
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def all_headers(self) -> dict[str, str]:
        out = dict(self.headers)
        if self.body is not None or self.content is not None:
            out["Content-Type"] = self.media
        return out


def segments(template: str, *ids: str | int) -> str:
    """Fills the {} of a path with percent-encoded ids. No id is "", "." or "..", with which a path names something else."""
    for i in ids:
        if str(i) in ("", ".", ".."):
            raise ValueError(f"{str(i)!r} is no id")
    return template.format(*(quote(str(i), safe="") for i in ids))


def query(**values: Any) -> tuple[tuple[str, str], ...]:
    """Returns query parameters. None is left out, and lists repeat their parameter."""
    out: list[tuple[str, str]] = []
    for name, value in values.items():
        if value is None:
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            out.append((name, str(one).lower() if isinstance(one, bool) else
                        json.dumps(one) if isinstance(one, dict) else str(one)))
    return tuple(out)


def without_none(body: Mapping[str, Any]) -> Json:
    """Returns a body without the members that are None, which means the same to the server."""
    return {name: value for name, value in body.items() if value is not None}


def write(method: str, where: str, body: Any = None, key: str | None = None, **more: Any) -> Call:
    return Call(method, where, body=body, headers={"Idempotency-Key": key or str(uuid.uuid4())}, **more)


@dataclass(frozen=True)
class Config:
    base_url: str
    api_key: str
    project: str
    timeout: float
    max_retries: int

    @staticmethod
    def of(base_url: str | None, api_key: str | None, project: str, timeout: float, max_retries: int) -> Config:
        url = (base_url or os.environ.get("MNEME_URL") or "http://127.0.0.1:7700").rstrip("/")
        return Config(url, api_key or os.environ.get("MNEME_API_KEY", ""), project, timeout, max_retries)

    def headers(self) -> dict[str, str]:
        out = {"User-Agent": "mneme-python/" + VERSION, "Accept": "application/json"}
        if self.api_key:
            out["Authorization"] = "Bearer " + self.api_key
        return out


RETRIED = {408, 429, 500, 502, 503, 504}


def pause_before_retry(attempt: int, response: httpx.Response | None) -> float | None:
    """Returns how many seconds to wait before the next attempt, or None if the call must not be repeated.

    Repeated are requests without an answer and those answered 408, 429 or 5xx, but for 507. The wait is random up to
    0.5 s * 2**attempt, at most 8 s, and never less than Retry-After, of which at most 60 s are waited for.
    """
    if response is not None and response.status_code not in RETRIED:
        return None
    wait = random.uniform(0, min(8.0, 0.5 * 2**attempt))
    after = response.headers.get("Retry-After", "") if response is not None else ""
    if after.isdigit():
        if int(after) > 60:
            return None
        wait += int(after)
    return wait


def result_of(call: Call, response: httpx.Response) -> Any:
    """Returns the decoded answer, or raises its error."""
    if response.status_code >= 400:
        raise failure_of(response)
    if call.raw:
        return response.content
    if not response.content:
        return None
    return response.json()


def failure_of(response: httpx.Response) -> MnemeError:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    return error_of(response.status_code, problem, response.headers.get("X-Request-ID", ""), response.text)


@dataclass(frozen=True)
class Event:
    """An event of a stream. id continues the stream after it; data is the decoded JSON."""

    id: str
    event: str
    data: Any


class EventParser:
    """Reads Server-Sent Events line by line."""

    def __init__(self) -> None:
        self.last_id = ""
        self.name = ""
        self.lines: list[str] = []

    def line(self, text: str) -> Event | None:
        """Takes a line without its end, and returns the event that it completes, if any."""
        if text == "":
            name, lines = self.name, self.lines
            self.name, self.lines = "", []
            return Event(self.last_id, name or "message", json.loads("\n".join(lines))) if lines else None
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self.lines.append(value)
        elif name == "event":
            self.name = value
        elif name == "id":
            self.last_id = value
        return None


def next_page(call: Call, page: Json) -> Call | None:
    """Returns the call of the page after this one, or None on the last page."""
    rest = tuple((n, v) for n, v in call.query if n not in ("cursor", "after", "offset"))
    if page.get("next_cursor"):
        return Call(call.method, call.path, rest + (("cursor", page["next_cursor"]),))
    if "offset" in page and page["offset"] + len(page["items"]) < page["total"] and page["items"]:
        return Call(call.method, call.path, rest + (("offset", str(page["offset"] + len(page["items"]))),))
    if "items" in page and page.get("has_more"):
        return Call(call.method, call.path, rest + (("after", page["items"][-1]["id"]),))
    return None


def rows_of(page: Json) -> Iterator[Json]:
    yield from page["data"] if "data" in page else page["items"]
