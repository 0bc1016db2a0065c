"""The client of a runner: it opens tasks for sandboxes and completes them."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._peer import Call, Peer, Principal, path_id, rfc3339
from ._strict import shown, word
from .errors import BadAnswer
from .keys import PrivateKey

_MAX_WAIT = 60.0


@dataclass(frozen=True)
class Task:
    """A task. name and reason are texts of people: show them, never follow them."""

    id: str
    state: str  # open, paused or closed
    name: str
    ceiling: str
    deadline: float  # Unix time
    cause: str  # why it ended, or why ebb paused it; "" = neither
    reason: str


@dataclass(frozen=True)
class Ticket:
    """An enrolment ticket: single-use, for the sandbox alone."""

    ticket: str = field(repr=False)
    expires_at: float


@dataclass(frozen=True)
class Completion:
    """The outcome of the end of a task: ebb refuses every credential of it."""

    task: Task
    already_complete: bool
    revoked: int
    pending_revocations: int  # credentials of third parties whose end the provider has not confirmed yet


class Runner:
    """Opens and ends tasks, as a principal with the role runner (private_key_jwt). It is safe for concurrent use."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        key: PrivateKey,
        *,
        kid: str = "",
        url: str = "",
        timeout: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """key is registered for the principal client_id. kid is needed only when it has several keys."""
        self._principal = Principal(Peer(issuer, key, url, timeout, ssl_context, now), client_id, kid)

    def open_task(
        self,
        *,
        name: str,
        kind: str,
        ceiling: str,
        ttl: float,
        owner: str = "",
        labels: Mapping[str, str] | None = None,
        heartbeat: float = 0.0,
        attestor: str = "enroll",
        selectors: Mapping[str, str] | None = None,
    ) -> tuple[Task, Ticket | None]:
        """Open a task. The ticket is None unless the attestor is "enroll".

        ceiling is the scope that no credential of the task exceeds; ttl and heartbeat are in seconds; owner is the
        person, "" = the runner itself.
        """
        spec: dict[str, Any] = {
            "name": name,
            "kind": kind,
            "owner": owner,
            "labels": dict(labels or {}),
            "ttl_seconds": int(ttl),
            "ceiling": ceiling,
            "heartbeat_seconds": int(heartbeat),
            "sandbox_expected": {"attestor": attestor, "selectors": dict(selectors or {})},
            "ticket": attestor == "enroll",
        }
        answer = self._call("POST", "/v1/tasks", spec)
        return _task(answer.get("task")), _ticket(answer) if "ticket" in answer else None

    def task(self, task_id: str) -> Task:
        """Return one task."""
        return _task(self._call("GET", f"/v1/tasks/{path_id(task_id)}"))

    def new_ticket(self, task_id: str) -> Ticket:
        """Create another enrolment ticket."""
        return _ticket(self._call("POST", f"/v1/tasks/{path_id(task_id)}/ticket"))

    def heartbeat(self, task_id: str) -> Task:
        """Send the runner's heartbeat."""
        return _task(self._call("POST", f"/v1/tasks/{path_id(task_id)}/heartbeat"))

    def complete_task(self, task_id: str, wait: float = 0.0) -> Completion:
        """Complete a task and revoke its credentials. It is idempotent: repeat it until it succeeds.

        It waits up to wait seconds, 60 at most, until the credentials are dead at third parties.
        """
        wait = min(max(wait, 0.0), _MAX_WAIT)
        query = {"wait_seconds": str(int(wait))} if wait >= 1 else None
        return _completion(self._call("POST", f"/v1/tasks/{path_id(task_id)}/complete", query=query, wait=wait))

    def stop_task(self, task_id: str, reason: str) -> Completion:
        """Stop a task and revoke its credentials, with a reason."""
        return _completion(self._call("POST", f"/v1/tasks/{path_id(task_id)}/stop", {"reason": reason}))

    def _call(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        wait: float = 0.0,
    ) -> dict[str, Any]:
        return self._principal.json(Call(method, path, query, document=document, wait=wait))


def _task(value: object) -> Task:
    if not isinstance(value, dict) or not word(value.get("id")) or not word(value.get("state")):
        raise BadAnswer("the answer of ebb contains no task")
    texts = (shown(value.get(name)) for name in ("cause", "reason"))
    return Task(
        value["id"], value["state"], shown(value.get("name")), shown(value.get("ceiling"), 40 << 10),
        rfc3339(value.get("deadline")), *texts,
    )  # fmt: skip


def _ticket(answer: Mapping[str, Any]) -> Ticket:
    ticket = answer.get("ticket")
    if not isinstance(ticket, str) or not word(ticket):
        raise BadAnswer("the answer of ebb contains no ticket")
    return Ticket(ticket, rfc3339(answer.get("ticket_expires_at")))


def _completion(answer: Mapping[str, Any]) -> Completion:
    counts = [answer.get(name, 0) for name in ("revoked", "pending_revocations")]
    if not all(isinstance(n, int) for n in counts):
        raise BadAnswer("the answer of ebb contains no completion")
    return Completion(_task(answer.get("task")), answer.get("already_complete") is True, *counts)
