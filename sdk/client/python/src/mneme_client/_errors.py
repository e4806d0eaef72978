"""Errors of the API. There is one class, with a subclass for each code that programs often handle."""

from __future__ import annotations

from typing import Any


class MnemeError(Exception):
    """A request that the server refused, or that never reached it.

    status is the HTTP status, or 0 if there was no answer. code is stable and meant for programs; /errors of the server
    explains each. errors lists the fields that are wrong.
    """

    def __init__(self, status: int, code: str, detail: str, request_id: str = "",
                 errors: list[dict[str, Any]] | None = None) -> None:
        super().__init__(f"{code}: {detail}" if code else detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.request_id = request_id
        self.errors = errors or []


class ConnectionFailed(MnemeError):
    """No answer arrived. The server may have done the work of a request that it received."""


class NotFound(MnemeError):
    """It does not exist, or the key has no access to it."""


class UnknownKey(MnemeError):
    """The API key is missing, unknown, expired or deleted."""


class RoleTooLow(MnemeError):
    """The key's role does not allow the request."""


class RateLimited(MnemeError):
    """The tenant has sent too many requests."""


class QuotaExceeded(MnemeError):
    """The tenant may not store more."""


class BudgetTooSmall(MnemeError):
    """The mandatory messages of a window exceed its budget."""


class RevisionChanged(MnemeError):
    """The session has changed since the revision that the request names."""


class SessionExists(MnemeError):
    """There is a session with this id."""


class ProjectExists(MnemeError):
    """There is a project with this id."""


class VersionMismatch(MnemeError):
    """The memory is not the version that the request names."""


class IdempotencyKeyReused(MnemeError):
    """The Idempotency-Key was used with another request."""


BY_CODE: dict[str, type[MnemeError]] = {
    "not_found": NotFound, "unknown_key": UnknownKey, "key_missing": UnknownKey, "role_too_low": RoleTooLow,
    "rate_limited": RateLimited, "quota_exceeded": QuotaExceeded, "budget_too_small": BudgetTooSmall,
    "revision_changed": RevisionChanged, "session_exists": SessionExists, "project_exists": ProjectExists,
    "version_mismatch": VersionMismatch, "idempotency_key_reused": IdempotencyKeyReused,
}


def error_of(status: int, problem: Any, request_id: str, text: str) -> MnemeError:
    """Returns the error that a response of this status and body means."""
    if not isinstance(problem, dict):
        problem = {}
    code = str(problem.get("code", ""))
    kind = BY_CODE.get(code, MnemeError)
    detail = str(problem.get("detail") or problem.get("title") or text[:300] or f"status {status}")
    return kind(status, code, detail, str(problem.get("request_id") or request_id), problem.get("errors"))
