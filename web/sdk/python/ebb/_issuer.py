"""Data of the issuer that a verifier keeps current: the signing keys, and the revocation feed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from . import _jwk, _jws
from ._http import Transport
from ._peer import Call, Peer, Principal, rfc3339, seconds
from ._revoked import Event, Page, RevokedSet
from ._strict import Malformed
from .errors import BadAnswer, EbbError, Problem, Unreachable

log = logging.getLogger("ebb.verify")

_BACK_OFF = 10.0  # the shortest time between two fetches of the keys that tokens cause
_KEY_WAIT = 3.0  # the longest wait of a request for a fetch
_MAX_JWKS = 256 << 10
_FEED_EVENTS = 1000


class Unavailable(Exception):
    """The keys of the issuer are not known at the moment."""


class KeySource:
    """The issuer's keys: the last good set, also while later fetches fail. It is safe for concurrent use."""

    def __init__(self, url: str, transport: Transport, now: Callable[[], float]) -> None:
        self._url, self._transport, self._now = url, transport, now
        self._gate = threading.Lock()  # one fetch at a time
        self._began: float | None = None
        self._error: Exception | None = None
        self._keys: tuple[_jwk.Key, ...] = ()

    def loaded(self) -> bool:
        return bool(self._keys)

    def find(self, header: _jws.Header) -> _jwk.Key:
        """Return the key for a header.

        An unknown kid causes a fetch, unless one was made within 10 s, so that strangers cannot turn their tokens into
        requests to the issuer.
        """
        key = self._known(header)
        if key is not None:
            return key
        error = self.refresh(_BACK_OFF)
        key = self._known(header)
        if key is not None:
            return key
        if error is not None or not self._keys:
            raise Unavailable from error  # the fetch failed, so the key may exist
        raise _jws.TokenError("key_unknown", "the token names a key that its issuer does not publish")

    def _known(self, header: _jws.Header) -> _jwk.Key | None:
        found = _jwk.find_keys(self._keys, header.alg, header.kid)
        if len(found) > 1:
            raise _jws.TokenError("key", "the token must name one of the several keys of its issuer")
        return found[0] if found else None

    def refresh(self, least: float) -> Exception | None:
        """Fetch the keys, unless a fetch began less than least seconds ago. Return the error of the last fetch."""
        if not self._gate.acquire(timeout=_KEY_WAIT):
            return Unreachable("the keys of the issuer did not arrive in time")
        try:
            now = self._now()
            if self._began is None or not 0 <= now - self._began < least:
                self._began = now
                try:
                    self._fetch()
                    self._error = None
                except (EbbError, Malformed) as e:
                    self._error = e
            return self._error
        finally:
            self._gate.release()

    def _fetch(self) -> None:
        answer = self._transport.send("GET", self._url, {"User-Agent": "ebb-python"}, None, _KEY_WAIT, _MAX_JWKS)
        if answer.status != 200:
            raise BadAnswer(f"the issuer answered the request for its keys with status {answer.status}")
        keys = _jwk.parse_jwks(answer.body)
        if not keys:
            raise BadAnswer("the issuer published no key; the previous keys stay in use")
        self._keys = keys


class UnknownCursor(Exception):
    """The issuer does not know the cursor of the feed any more."""


class Feed(Protocol):
    """The revocation feed. One thread uses it."""

    def next(self, cursor: str, wait: float, timeout: float) -> Page:
        """Return the events after cursor ("" = from the oldest kept), waiting up to wait seconds for the first one.

        Raise UnknownCursor when the cursor is not known any more, and EbbError when the feed cannot be read.
        """
        ...


class HTTPFeed:
    """ebb's feed, read as a principal with the role resource_server."""

    def __init__(self, peer: Peer, client_id: str, kid: str, resource: str) -> None:
        self._peer, self._client_id, self._resource = peer, client_id, resource
        self._principal = Principal(peer, client_id, kid)

    def next(self, cursor: str, wait: float, timeout: float) -> Page:
        query = {"limit": str(_FEED_EVENTS)}
        if cursor:
            query["cursor"] = cursor
        if wait >= 1:
            query["wait_seconds"] = str(int(wait))
        self._peer.timeout = timeout
        try:
            answer = self._principal.json(Call("GET", "/v1/revocations", query, wait=wait))
        except Problem as e:
            if cursor and (e.code == "invalid_request" or e.status == 410):
                raise UnknownCursor from e
            raise
        return self._page(answer)

    def _page(self, answer: dict[str, Any]) -> Page:
        audiences = answer.get("audiences")
        if isinstance(audiences, list) and audiences and self._resource not in audiences:
            raise BadAnswer(
                f"the revocation feed of principal {self._client_id!r} does not cover tokens for {self._resource!r}; "
                "add it to the audiences of the principal"
            )
        return page_of(answer)


def page_of(answer: dict[str, Any]) -> Page:
    """Return the page in an answer of the feed. A malformed answer raises BadAnswer, so that none is read halfway."""
    events, cursor = answer.get("events"), answer.get("cursor", "")
    if events is None:
        events = []
    if not isinstance(events, list) or not isinstance(cursor, str) or not isinstance(answer.get("max_age_seconds", 0), int):
        raise BadAnswer("the answer of the revocation feed cannot be parsed")
    parsed = []
    for event in events:
        if not isinstance(event, dict):
            raise BadAnswer("an event of the revocation feed cannot be parsed")
        task, lease = event.get("task_id", ""), event.get("lease_id", "")
        if not isinstance(task, str) or not isinstance(lease, str):
            raise BadAnswer("an event of the revocation feed cannot be parsed")
        at = rfc3339(event["at"]) if "at" in event else None
        parsed.append(Event(task, lease, at, rfc3339(event.get("until"))))
    max_age = min(seconds(answer.get("max_age_seconds", 0)), 3600.0)
    return Page(tuple(parsed), cursor, len(events) >= _FEED_EVENTS, max_age)


class Follower:
    """Reads the feed into the revoked set.

    The age of the set counts from the request, not from the answer. Therefore two waits and a round trip must fit into
    the staleness: each wait is at most a third of it.
    """

    def __init__(self, feed: Feed, revoked: RevokedSet, max_staleness: float) -> None:
        self._feed, self._revoked = feed, revoked
        self._staleness, self._longest = max_staleness, max_staleness / 3
        self._cursor, self._wait, self._pause = "", 0.0, 0.0

    def step(self) -> float:
        """Make one call of the feed, and return the pause before the next one in seconds."""
        asked, wait = self._revoked.clocks(), self._wait
        self._wait = 0.0
        try:
            # A connection that is dead without notice must not outlast the staleness.
            page = self._feed.next(self._cursor, wait, self._staleness / 2)
        except UnknownCursor:
            self._cursor = ""  # the revoked set stays; the feed is read from its start
            return self._failed("the issuer does not know the cursor any more")
        except EbbError as e:
            return self._failed(e.sentence)
        except Exception as e:  # the loop must not end: it would leave every request refused
            return self._failed(repr(e))
        self._revoked.add(page.events)
        self._cursor, self._pause = page.cursor, 0.0
        if page.full:
            return 0.0
        self._revoked.complete(asked, page.max_age)
        self._wait = min(self._longest, page.max_age / 3) if page.max_age > 0 else self._longest
        if not page.events and self._revoked.clocks()[1] - asked[1] < wait / 2:
            return wait / 2  # avoids a busy loop with a feed that does not wait
        return 0.0

    def _failed(self, why: object) -> float:
        log.warning("revocation feed: %s", why)
        self._pause = min(max(2 * self._pause, 0.25), self._longest)
        return self._pause
