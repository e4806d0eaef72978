"""A client for Mneme, a memory engine for agents: sessions, context windows, memories, tools, policies and boards."""

from ._async import AsyncMneme, AsyncSession, AsyncTurn
from ._call import VERSION as __version__
from ._call import Call, Event
from ._errors import (BudgetTooSmall, ConnectionFailed, IdempotencyKeyReused, MnemeError, NotFound, ProjectExists,
                      QuotaExceeded, RateLimited, RevisionChanged, RoleTooLow, SessionExists, UnknownKey,
                      VersionMismatch)
from ._sync import Mneme, Session, Turn

__all__ = [
    "AsyncMneme", "AsyncSession", "AsyncTurn", "BudgetTooSmall", "Call", "ConnectionFailed", "Event", "IdempotencyKeyReused",
    "Mneme", "MnemeError", "NotFound", "ProjectExists", "QuotaExceeded", "RateLimited", "RevisionChanged", "RoleTooLow",
    "Session", "SessionExists", "Turn", "UnknownKey", "VersionMismatch", "__version__",
]
