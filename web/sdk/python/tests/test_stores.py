"""The replay memory, the revoked set, scopes and key files."""

from __future__ import annotations

import os
import random
import stat
import tempfile
import threading
import unittest
from pathlib import Path

from ebb import EbbError, ScopeSet, jkt, load_key, load_or_create_key, new_key, parse_key, public_jwk, save_key
from ebb._dpop import Memory, Proof
from ebb._replay import BusyKey, Full, MemoryReplay, _Spans
from ebb._revoked import Event, RevokedSet
from ebb.scopes import ScopeError

START = 1_800_000_000.0


class Clocks:
    """A wall clock and a monotonic one."""

    def __init__(self) -> None:
        self.wall, self.steady = START, 0.0

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def proof_of(replay: MemoryReplay, name: str, iat: float, jkt: str = "k", nonce: str | None = None) -> Proof:
    nonce = replay.memory().nonce if nonce is None else nonce
    return Proof(jkt, jkt + name, iat - 60, iat + 61, nonce)


class ReplayTest(unittest.TestCase):
    def setUp(self) -> None:
        self.clocks = Clocks()

    def replay(self, most: int = 1000) -> MemoryReplay:
        return MemoryReplay(most, now=lambda: self.clocks.wall, monotonic=lambda: self.clocks.steady)

    def test_once(self) -> None:
        r = self.replay()
        p = proof_of(r, "1", START)
        self.assertEqual([r.claim(p) for _ in range(3)], [True, False, False])
        for at in (-2, 0, 60, 120):
            self.assertFalse(r.claim(proof_of(r, "2", START + at, nonce="")), "may be from before the start")
        self.clocks.advance(60)
        self.assertFalse(r.claim(p), "in its last second")

    def test_wall_clock_set_back(self) -> None:
        r = self.replay()
        p = proof_of(r, "1", START)
        self.assertTrue(r.claim(p))
        self.clocks.wall += 3600  # jumps ahead
        self.assertTrue(r.claim(proof_of(r, "2", self.clocks.wall)))
        self.assertFalse(r.claim(p), "nothing is dropped for a jump")
        self.clocks.advance(600)
        self.assertTrue(r.claim(proof_of(r, "3", self.clocks.wall)))
        self.clocks.wall = START + 1
        self.assertFalse(r.claim(p), "dropped, and the clock came back")
        self.assertTrue(r.claim(proof_of(r, "4", START + 700)), "a time of which nothing was dropped")

    def test_bounds(self) -> None:
        r = self.replay(100)
        for i in range(25):
            self.assertTrue(r.claim(proof_of(r, str(i), START + i, "greedy")))
        with self.assertRaises(BusyKey):
            r.claim(proof_of(r, "more", START, "greedy"))
        for i in range(75):
            self.assertTrue(r.claim(proof_of(r, str(i), START, f"k{i % 4}")))
        with self.assertRaises(Full):
            r.claim(proof_of(r, "1", START, "another"))
        self.assertFalse(r.claim(proof_of(r, "3", START + 3, "greedy")), "a replay while full")
        self.clocks.advance(300)
        self.assertTrue(r.claim(proof_of(r, "1", self.clocks.wall, "another")), "after all is forgotten")

    def test_one_winner(self) -> None:
        r = MemoryReplay()
        proofs = [proof_of(r, str(i), START) for i in range(50)]
        won: list[int] = []
        barrier = threading.Barrier(16)

        def race() -> None:
            for i, p in enumerate(proofs):
                barrier.wait()
                if r.claim(p):
                    won.append(i)

        threads = [threading.Thread(target=race) for _ in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(won), list(range(50)))

    def test_memory(self) -> None:
        m = Memory(START, "n")
        for begin, nonce, want in ((START + 60, "", False), (START + 61, "", True), (0.0, "n", True), (0.0, "m", False)):
            self.assertEqual(m.covers(Proof("k", "r", begin, begin + 121, nonce)), want)
        self.assertTrue(m.young(START + 239, 60) and not m.young(START + 240, 60))
        self.assertTrue(Memory(None, "").covers(Proof("k", "r", 0, 1, "")))

    def test_spans(self) -> None:
        chosen = random.Random(7)
        for spread in (100, 100_000):
            spans, added = _Spans(), set()
            for _ in range(500):
                number = chosen.randrange(spread)
                spans.add(number)
                added.add(number)
            self.assertTrue(all(spans.has(n) for n in added))
            self.assertLessEqual(len(spans._from), 64)
            self.assertEqual(len(spans._from), len(spans._to))
            if spread == 100:
                self.assertEqual([n for n in range(-5, 105) if spans.has(n)], sorted(added))


class RevokedTest(unittest.TestCase):
    def setUp(self) -> None:
        self.clocks = Clocks()

    def set(self, most: int = 100) -> RevokedSet:
        s = RevokedSet(most, lambda: self.clocks.wall, lambda: self.clocks.steady)
        s.complete(s.clocks(), 0)
        return s

    def event(self, name: str) -> Event:
        return Event(name, "", self.clocks.wall, self.clocks.wall + 600)

    def test_age(self) -> None:
        s = RevokedSet(10, lambda: self.clocks.wall, lambda: self.clocks.steady)
        self.assertIsNone(s.revoked(["a"], START, 10), "never read")
        s.complete(s.clocks(), 0)
        self.clocks.advance(10)
        self.assertIs(s.revoked(["a"], START, 10), False)
        self.clocks.advance(0.1)
        self.assertIsNone(s.revoked(["a"], START, 10))
        s.complete(s.clocks(), 4)
        self.clocks.steady += 5  # the wall clock was set back meanwhile
        self.assertIsNone(s.revoked(["a"], START, 10), "the issuer's own limit, by the monotonic clock")
        s.complete(s.clocks(), 0)
        self.clocks.wall += 11  # the machine was suspended
        self.assertIsNone(s.revoked(["a"], START, 10))

    def test_kept_while_the_wall_clock_is_ahead(self) -> None:
        s = self.set()
        s.add([self.event("a")])
        self.clocks.wall += 86400
        for name in "bcd":
            s.add([Event(name, "", START, START + 600)])
        self.clocks.wall = START
        s.complete(s.clocks(), 0)
        self.assertTrue(all(s.revoked([name], START, 10) for name in "abcd"))

    def test_dropped_after_its_time(self) -> None:
        s = self.set()
        s.add([self.event("a")])
        self.clocks.advance(901)
        s.add([self.event("b")])
        s.complete(s.clocks(), 0)
        self.assertEqual([s.revoked([name], self.clocks.wall, 10) for name in "ab"], [False, True])

    def test_too_many(self) -> None:
        """More revocations than fit in memory refuse too much, never too little."""
        s = self.set(10)
        for i in range(25):
            s.add([self.event(f"t{i}")])
        self.assertTrue(all(s.revoked([f"t{i}"], START, 10) for i in range(25)))
        self.assertTrue(s.revoked(["alive"], START, 10))
        self.assertFalse(s.revoked(["new"], START + 6, 10))

    def test_threads(self) -> None:
        s = RevokedSet(1_000_000)
        s.complete(s.clocks(), 0)
        writers = [
            threading.Thread(target=lambda k=k: [s.add([Event(f"{k}-{i}", "", 0, 600)]) for i in range(500)]) for k in range(4)
        ]
        for t in writers:
            t.start()
        for i in range(2000):
            s.revoked([f"0-{i % 500}"], 1.0, 60)
        for t in writers:
            t.join()
        self.assertTrue(all(s.revoked([f"{k}-{i}"], 1.0, 60) for k in range(4) for i in range(500)))


class ScopeTest(unittest.TestCase):
    def test_grammar(self) -> None:
        for text in (
            "a", "a:b", "a:b:c:d", "A:b:c", "a:b:C", "a::c", "a:b/:c", "a:/b:c", "a:b//d:c", "a:.:c", "a:../b:c", "a:b*:c",
            "a:***:c", "a:**/b:c", "a:b:**", " a:b:c", "a:b:c ", "a:b:c  d:e:f", "a:b:c\n", "\u00e4:b:c", "a:\u00e9:c", "a:b\n:c",
            "a:" + "x" * 65 + ":c", "a:" + "/".join("x" * 17) + ":c", "a" * 33 + ":b:c", "a:b:" + "c" * 33,
            "a:" + "/".join(["x" * 64] * 8) + ":c", " ".join(["a:b:c"] * 65),
        ):  # fmt: skip
            with self.subTest(text), self.assertRaises(ScopeError):
                ScopeSet(text)
        self.assertEqual(str(ScopeSet("z:a:b a:b:c a:b:c a:*:c")), "a:*:c z:a:b")

    def test_covers(self) -> None:
        for have, need, want in (
            ("o:eu/42:read", "o:eu/42:read", True), ("o:eu/*:read", "o:eu/42:read", True), ("o:eu/**:*", "o:eu/42/7:write", True),
            ("o:eu/**:read", "o:eu:read", False), ("o:eu/*:read", "o:eu/42/7:read", False), ("o:*:read", "o:**:read", False),
            ("o:**:read", "o:*:read", True), ("o:eu/42:read", "o:eu/42:*", False), ("p:eu/42:read", "o:eu/42:read", False),
            ("o:a:read o:b:read", "o:b:read o:a:read", True), ("", "o:a:read", False), ("o:a:read", "", True), ("o:eu:r", "o:eu/1:r", False),
        ):  # fmt: skip
            with self.subTest((have, need)):
                self.assertEqual(ScopeSet(have).covers(ScopeSet(need)), want)


class KeyFileTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "own.key"

    def test_created_for_the_owner_only(self) -> None:
        for alg in ("ES256", "EdDSA"):
            path = self.path.with_suffix("." + alg)
            key = load_or_create_key(path, alg)
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
            self.assertEqual(jkt(load_or_create_key(path)), jkt(key))
            with self.assertRaises(FileExistsError):
                save_key(path, new_key())
            self.assertIn(jkt(key), public_jwk(key))
            self.assertNotIn('"d"', public_jwk(key))

    def test_refused(self) -> None:
        save_key(self.path, new_key())
        os.chmod(self.path, 0o640)
        with self.assertRaisesRegex(EbbError, "chmod 600"):
            load_key(self.path)
        for text in (b"", b"secret", b"{}", b'{"kty":"EC","crv":"P-256","d":"secret"}', b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"):
            with self.subTest(text), self.assertRaises(EbbError) as raised:
                parse_key(text)
            self.assertNotIn("secret", str(raised.exception))

    def test_key_file_of_ebb(self) -> None:
        """`ebb keys new` writes lines of text before the PEM."""
        save_key(self.path, new_key())
        pem = self.path.read_bytes()
        self.assertEqual(jkt(parse_key(b"client_id: orders-api\n" + pem)), jkt(parse_key(pem)))


if __name__ == "__main__":
    unittest.main()
