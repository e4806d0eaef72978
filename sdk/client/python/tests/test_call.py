"""Checks what needs no server."""

from __future__ import annotations

import httpx
import pytest

from mneme_client import Mneme


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_ids_that_are_no_segments(id: str) -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(204)

    client = Mneme("http://mneme.invalid", transport=httpx.MockTransport(answer))
    with pytest.raises(ValueError):
        client.session(id).delete()
    assert not sent
    client.session("a/..").delete()
    assert sent[0].url.raw_path == b"/api/v1/projects/default/sessions/a%2F.."
