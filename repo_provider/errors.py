"""The error tree: one class per wire code.

    ProviderError
    ├── BadRequest                  bad_request
    ├── UnsupportedKind             unsupported_kind
    ├── UnsupportedRepresentation   unsupported_representation
    ├── IncompatibleVersion         incompatible_version
    ├── BudgetUnsatisfiable         budget_unsatisfiable
    ├── Unavailable                 unavailable
    ├── ShuttingDown                shutting_down
    └── Internal                    internal

Raise where the fault is discovered; `session` alone turns an error into an envelope (X1), the command line
alone turns one into a line of text. Finding nothing is an answer, never an error.
"""

from __future__ import annotations


class ProviderError(Exception):
    """Something a peer can be told. `code` is the wire code (X1), `reason` a stable word for a person or a test.

    `reason` narrows the code where the wire has only eight of them: `foreign_owner`, `not_a_repository`,
    `invalid_time`, `invalid_revision`, `store_busy`, ... It is `""` where the code says it all.
    """

    code = "internal"

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


class BadRequest(ProviderError):
    code = "bad_request"


class UnsupportedKind(ProviderError):
    code = "unsupported_kind"


class UnsupportedRepresentation(ProviderError):
    code = "unsupported_representation"


class IncompatibleVersion(ProviderError):
    code = "incompatible_version"


class BudgetUnsatisfiable(ProviderError):
    code = "budget_unsatisfiable"


class Unavailable(ProviderError):
    code = "unavailable"


class ShuttingDown(ProviderError):
    code = "shutting_down"


class Internal(ProviderError):
    code = "internal"
