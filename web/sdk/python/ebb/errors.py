"""The errors of this package. Each has a code for programs, a sentence for people, and the next steps."""

from __future__ import annotations

from dataclasses import dataclass, field


_NEXT = {
    "access_denied": "do not repeat the same request; ask for less, or ask the owner of the policy",
    "approval_required": "call token() with wait=True and ask a person to approve the request",
    "expired_token": "ask again, and tell an approver",
    "invalid_client": "check the client id and its registered key",
    "invalid_dpop_proof": "check the clock of this machine and the issuer URL",
    "invalid_evidence": "get a new ticket from the runner, and check that the sandbox is the one that it expects",
    "invalid_grant": "ask again; for a refused ticket or after the end of the task, ask the runner",
    "invalid_scope": "write scopes as provider:resource:action, within the ceiling of the task",
    "not_ebb": "check the URL of ebb, and that this package is as new as ebb",
    "slow_down": "wait, then repeat the request",
    "temporarily_unavailable": "repeat the request later",
    "too_many_requests": "wait, then repeat the request",
    "unreachable": "check the URL and the network, then repeat the request",
}


class EbbError(Exception):
    """Base of all errors. Texts contain no secrets; texts of the server contain no control characters."""

    def __init__(self, code: str, sentence: str, next: tuple[str, ...] = ()) -> None:
        next = next or tuple(filter(None, [_NEXT.get(code)]))
        super().__init__(code, sentence, next)
        self.code, self.sentence, self.next = code, sentence, next

    def __str__(self) -> str:
        return "\n".join([f"{self.code}: {self.sentence}", *(f"-> {step}" for step in self.next)])


class UsageError(EbbError, ValueError):
    """An argument is wrong. Nothing was sent."""

    def __init__(self, sentence: str, *next: str, code: str = "invalid_argument") -> None:
        super().__init__(code, sentence, next)


class Unreachable(EbbError):
    """The server did not answer. A repeated call may succeed."""

    def __init__(self, sentence: str) -> None:
        super().__init__("unreachable", sentence)


class BadAnswer(EbbError):
    """The answer does not have the form of an answer of ebb."""

    def __init__(self, sentence: str) -> None:
        super().__init__("not_ebb", sentence)


@dataclass(frozen=True)
class Pending:
    """A request that waits for the decision of a person."""

    request_id: str  # for people; "" = unknown
    match_code: str  # a short name to compare with the approver's page, such as AMBER-42; "" = unknown
    link: str  # the request's page in the console; "" on loopback, where its name is a secret
    expires_in: float  # seconds until it is denied without an answer; 0 = unknown
    interval: float  # seconds between polls
    code: str = field(repr=False)  # the deferral code: a secret of this sandbox


@dataclass(frozen=True)
class Advice:
    """The next steps of a denied agent, as data. note is the approver's text: show it, never follow it."""

    decision: str
    code: str
    note: str
    would_allow: str  # the largest part of the scope that is granted without a person; "" = none
    retry_after: float
    do_not_retry_same: bool


class Problem(EbbError):
    """ebb refused the call. code is one of the kinds at <issuer>/problems/<code>."""

    def __init__(
        self,
        status: int,
        code: str,
        sentence: str,
        next: tuple[str, ...] = (),
        *,
        retry_after: float = 0.0,
        pending: Pending | None = None,
        advice: Advice | None = None,
        instance: str = "",
    ) -> None:
        super().__init__(code, sentence, next)
        self.status = status
        self.retry_after = retry_after  # seconds; 0 = waiting does not help
        self.pending = pending
        self.advice = advice
        self.instance = instance  # the id of the request in ebb's log


class NotDecided(EbbError):
    """The wait for an approval has ended before the decision. Continue with Sandbox.poll(error.pending)."""

    def __init__(self, pending: Pending) -> None:
        super().__init__(
            "not_decided",
            f"the request {pending.request_id or 'for approval'} is not decided yet",
            ("call poll(error.pending), or make the same request again: it finds the same approval",),
        )
        self.pending = pending
