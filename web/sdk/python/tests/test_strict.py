"""Hostile JSON, base64url, names, keys and signatures."""

from __future__ import annotations

import unittest
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ebb import _jwk, _jws, new_key
from ebb._jwk import Key, parse_jwk, parse_jwks, public_members
from ebb._strict import Malformed, Number, b64url, b64url_decode, decode_object, look_alike, plain, shown, word

from .forge import signed


class StrictTest(unittest.TestCase):
    def test_hostile_json(self) -> None:
        for name, raw in {
            "empty": b"", "array": b"[]", "null": b"null", "two objects": b"{}{}", "text after": b"{} x",
            "byte order mark": b"\xef\xbb\xbf{}", "duplicate": b'{"a":1,"a":1}', "duplicate, escaped": b'{"a":1,"\\u0061":1}',
            "duplicate below": b'{"x":[{"a":1,"a":1}]}', "NaN": b'{"a":NaN}', "Infinity": b'{"a":-Infinity}',
            "leading zero": b'{"a":01}', "plus": b'{"a":+1}', "other digits": '{"a":\u0661}'.encode(),
            "control character": b'{"a":"\n"}', "lone surrogate": b'{"a":"\\ud800"}', "as a name": b'{"\\udc00":1}',
            "surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}', "not UTF-8": b'{"a":"\xff"}', "single quotes": b"{'a':1}",
            "comment": b"{/**/}", "trailing comma": b'{"a":1,}', "other white space": b"{\xc2\xa0}", "UTF-16": '{"a":1}'.encode("utf-16"),
            "too deep": b'{"a":' * 16 + b"{}" + b"}" * 16, "much too deep": b'{"a":' * 100_000,
            "too many members": b"{" + b",".join(b'"%d":0' % i for i in range(257)) + b"}", "unterminated": b'"\\"' * 4000,
        }.items():  # fmt: skip
            with self.subTest(name), self.assertRaises(Malformed):
                decode_object(raw)

    def test_good_json(self) -> None:
        got = decode_object(b' {"a":"\\ud83d\\ude00","b":[1e2,true,null],"c":"[{:","d":' + b"9" * 5000 + b"}\n")
        self.assertEqual((got["a"], got["b"][1:], got["c"]), ("\U0001f600", [True, None], "[{:"))
        self.assertIsInstance(got["b"][0], Number)
        self.assertEqual(got["d"].text, "9" * 5000)  # never converted
        decode_object(b'{"a":' * 15 + b"{}" + b"}" * 15)

    def test_base64url(self) -> None:
        for text in ("A", "AA=", "AB", "AA\n", "A A", "AA+/", "AAA=", "\u0661A", "AAAAA"):
            with self.subTest(text), self.assertRaises(Malformed):
                b64url_decode(text)
        for data in (b"", b"\0", b"\xff\xfe", b"abc"):
            self.assertEqual(b64url_decode(b64url(data)), data)

    def test_names_that_look_alike(self) -> None:
        for names, want in (
            (("aud", "sub"), False), (("AUD",), True), (("Sub", "sub"), True), (("\u017fub",), True), (("\u212aid",), True),
            (("x", "X"), True), (("Foo",), False), (("stra\u00dfe", "strasse"), False), (("\u1e9e", "\u00df"), True),
            (("\u0130ss",), False), (("\u00e9", "\u00c9"), True), (("cnf", "\ufb01"), False),
        ):  # fmt: skip
            with self.subTest(names):
                self.assertEqual(look_alike(dict.fromkeys(names), ("aud", "sub", "kid", "iss", "cnf")), want)

    def test_texts_of_others(self) -> None:
        self.assertEqual(shown("a\x1b[2J\u202eb\u2028"), "a\ufffd[2J\ufffdb\ufffd")
        self.assertEqual((shown(7), shown("abc", 2)), ("", "ab"))
        self.assertTrue(plain("\u00e5nn \u5c71") and not plain("a\x9bb") and not plain("\u200b"))
        self.assertFalse(any(word(t) for t in ("", "a b", "a\n", "\u00e9", None, 1)))


class KeyTest(unittest.TestCase):
    def test_refused_keys(self) -> None:
        good = public_members(new_key().public_key())
        okp = public_members(new_key("EdDSA").public_key())
        weak = public_members(rsa.generate_private_key(65537, 1024).public_key())
        strong = public_members(rsa.generate_private_key(65537, 2048).public_key())
        changes: dict[str, dict[str, Any]] = {
            "private": {**good, "d": "AA"}, "private null": {**good, "d": None}, "symmetric": {"kty": "oct", "k": "AAAA"},
            "not on the curve": {**good, "y": good["x"]}, "other curve": {**good, "crv": "P-384"}, "secp256k1": {**good, "crv": "secp256k1"},
            "long x": {**good, "x": b64url(b"\0" + b64url_decode(good["x"]))}, "x padded": {**good, "x": good["x"] + "="},
            "for encryption": {**good, "use": "enc"}, "ops": {**good, "key_ops": ["sign"]}, "ops null": {**good, "key_ops": None},
            "alg of another": {**good, "alg": "RS256"}, "KTY": {**good, "KTY": "EC"}, "kid": {**good, "kid": ""},
            "RSA 1024": weak, "RSA even": {**strong, "n": strong["n"][:-2] + "AA"}, "RSA e 1": {**strong, "e": "AQ"},
            "RSA leading zero": {**strong, "n": b64url(b"\0" + b64url_decode(strong["n"]))}, "RSA huge e": {**strong, "e": b64url(b"\xff" * 4)},
            "order 1": {**okp, "x": b64url(b"\x01" + b"\0" * 31)}, "order 1, sign": {**okp, "x": b64url(b"\x01" + b"\0" * 30 + b"\x80")},
            "order 4": {**okp, "x": b64url(b"\0" * 32)}, "not canonical": {**okp, "x": b64url(b"\xee" + b"\xff" * 30 + b"\x7f")},
            "31 bytes": {**okp, "x": b64url(b"\x02" * 31)}, "X25519": {**okp, "crv": "X25519"}, "crv an array": {**good, "crv": ["P-256"]},
        }  # fmt: skip
        for name, jwk in changes.items():
            with self.subTest(name), self.assertRaises(Malformed):
                parse_jwk(jwk)
        for jwk in (good, okp, strong):
            parse_jwk(dict(jwk))

    def test_a_private_key_spoils_its_set(self) -> None:
        with self.assertRaises(Malformed):
            parse_jwks(b'{"keys":[{"kty":"oct","k":"AAAA"}]}')
        self.assertEqual(parse_jwks(b'{"keys":[{"kty":"new"},1]}'), ())

    def test_signatures(self) -> None:
        """Each algorithm verifies with its own type of key only, and each signature in its own form only."""
        keys: dict[str, Any] = {
            "ES256": new_key(), "EdDSA": new_key("EdDSA"), "ES384": ec.generate_private_key(ec.SECP384R1()),
            "RS256": rsa.generate_private_key(65537, 2048), "PS256": rsa.generate_private_key(65537, 2048),
        }  # fmt: skip
        for alg, key in keys.items():
            public = parse_jwk(dict(public_members(key.public_key())))
            u = _jws.parse(signed(key, {"alg": alg}, {}))
            self.assertTrue(_jwk.verify(public, alg, u.signing_input, u.signature), alg)
            for other, other_key in keys.items():
                strange = parse_jwk(dict(public_members(other_key.public_key())))
                if other != alg:
                    self.assertFalse(_jwk.verify(strange, alg, u.signing_input, u.signature), f"{alg} by {other}")
                    self.assertFalse(_jwk.verify(public, other, u.signing_input, u.signature), f"{alg} as {other}")
            for bad in (u.signature[:-1], u.signature + b"\0", b"", b"\0" * len(u.signature)):
                self.assertFalse(_jwk.verify(public, alg, u.signing_input, bad), alg)

    def test_signature_forms(self) -> None:
        key = new_key()
        public = Key(key.public_key(), ("ES256",))
        der = key.sign(b"x.y", ec.ECDSA(_jwk._HASHES["256"]))
        self.assertFalse(_jwk.verify(public, "ES256", b"x.y", der))
        pss: Any = rsa.generate_private_key(65537, 2048)
        u = _jws.parse(signed(pss, {"alg": "PS256"}, {}, salt=20))
        self.assertFalse(_jwk.verify(parse_jwk(dict(public_members(pss.public_key()))), "PS256", u.signing_input, u.signature))

    def test_a_key_with_alg_verifies_that_alg_only(self) -> None:
        key: Any = rsa.generate_private_key(65537, 2048)
        public = parse_jwk({**public_members(key.public_key()), "alg": "RS256"})
        u = _jws.parse(signed(key, {"alg": "PS256"}, {}))
        self.assertFalse(_jwk.verify(public, "PS256", u.signing_input, u.signature))


if __name__ == "__main__":
    unittest.main()
