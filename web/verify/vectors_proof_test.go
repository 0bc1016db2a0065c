package verify_test

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/dpop"
)

const badProof = "401 invalid_dpop_proof"

// proofHeaders are the vectors about the form, header, key and signature of a proof.
func (f *forge) proofHeaders() {
	f.proofForms()
	f.proofParameters()
	f.proofKeys()
	for name, c := range signatures() {
		want := badProof
		if c.valid {
			want = "allow"
		}
		f.proofCase(name, want, func(token string) string { return f.resigned(f.proof(token, nil, nil), c.change) })
	}
	f.proofCase("signature in DER", badProof, func(token string) string { return f.asn1Signature(f.holder, f.proof(token, nil, nil)) })
}

func (f *forge) proofForms() {
	for name, change := range map[string]func(proof string) string{
		"empty":             func(string) string { return "" },
		"not a JWS":         func(string) string { return "nope" },
		"trailing dot":      func(p string) string { return p + "." },
		"trailing newline":  func(p string) string { return p + "\n" },
		"leading space":     func(p string) string { return " " + p },
		"padded":            func(p string) string { return p + "==" },
		"two in one header": func(p string) string { return p + ", " + p },
		"no signature":      func(p string) string { return p[:strings.LastIndexByte(p, '.')+1] },
		"truncated":         func(p string) string { return p[:len(p)-4] },
		"non-zero trailing bits": func(p string) string {
			return p[:len(p)-1] + nextBits(p)
		},
	} {
		f.proofCase(name, badProof, func(token string) string { return change(f.proof(token, nil, nil)) })
	}
	f.proofCase("header with two typ", badProof, func(token string) string {
		h := strings.Replace(text(f.proofHead(f.holder, nil)), `"typ":`, `"typ":"dpop+jwt","typ":`, 1)
		return attesttest.Forge(f.t, f.holder, h, f.proofClaimsOf(token, nil))
	})
	f.proofCase("jwk with two x", badProof, func(token string) string {
		h := strings.Replace(text(f.proofHead(f.holder, nil)), `"x":`, `"x":"AAAA","x":`, 1)
		return attesttest.Forge(f.t, f.holder, h, f.proofClaimsOf(token, nil))
	})
	for _, name := range []string{"jti", "htm", "htu", "iat", "ath"} {
		f.proofCase(name+" twice", badProof, func(token string) string {
			c := f.proofClaimsOf(token, nil)
			return attesttest.Forge(f.t, f.holder, f.proofHead(f.holder, nil), strings.TrimSuffix(text(c), "}")+`,"`+name+`":`+text(c[name])+`}`)
		})
	}
	f.proofCase("payload with invalid UTF-8", badProof, func(token string) string {
		return attesttest.Forge(f.t, f.holder, f.proofHead(f.holder, nil), strings.TrimSuffix(text(f.proofClaimsOf(token, nil)), "}")+",\"x\":\"\xfe\"}")
	})
	f.proofCase("9 levels", badProof, func(token string) string {
		return attesttest.Forge(f.t, f.holder, f.proofHead(f.holder, nil), strings.TrimSuffix(text(f.proofClaimsOf(token, nil)), "}")+`,"x":`+strings.Repeat("[", 8)+strings.Repeat("]", 8)+"}")
	})
	f.proofCase("larger than 8 KiB", badProof, func(token string) string { return f.proof(token, nil, object{"x": strings.Repeat("x", 7<<10)}) })
}

func (f *forge) proofParameters() {
	head := func(name, want string, change object) {
		f.proofCase(name, want, func(token string) string { return f.proof(token, change, nil) })
	}
	for _, typ := range []any{nil, "", "JWT", "at+jwt", "dpop", "dpop+jwt ", 1} {
		head("typ "+text(typ), badProof, object{"typ": typ})
	}
	head("typ DPoP+JWT", "allow", object{"typ": "DPoP+JWT"})
	head("typ application/dpop+jwt", "allow", object{"typ": "application/dpop+jwt"})
	for _, alg := range []any{nil, "none", "HS256", "ES256K", "ES384", "RS1", "RS256", "PS256", "EdDSA", "es256", []string{"ES256"}} {
		head("alg "+text(alg)+" on a P-256 key", badProof, object{"alg": alg})
	}
	for name, change := range map[string]object{
		"crit": {"crit": []string{"iat"}}, "b64 false": {"b64": false}, "zip": {"zip": "DEF"}, "cty": {"cty": "JWT"}, "jku": {"jku": "https://evil.test"},
		"x5c": {"x5c": []string{"AAAA"}}, "x5u": {"x5u": "https://evil.test"}, "JWK beside jwk": {"JWK": object{}}, "kid with a control character": {"kid": "a\nb"},
	} {
		head("header with "+name, badProof, change)
	}
	head("header with kid and x5t", "allow", object{"kid": "mine", "x5t": "AAAA"})
}

func (f *forge) proofKeys() {
	jwk := attesttest.PublicJWK(f.t, f.holder)
	key := func(name string, v any) {
		f.proofCase(name, badProof, func(token string) string { return f.proof(token, object{"jwk": v}, nil) })
	}
	x, y := jwk["x"].(string), jwk["y"].(string)
	for name, change := range map[string]object{
		"private d": {"d": b64(make([]byte, 32))}, "private d is null": {"d": jsonNull}, "symmetric k": {"k": "AAAA"}, "private priv": {"priv": "AAAA"},
		"use enc": {"use": "enc"}, "key_ops sign": {"key_ops": []string{"sign"}}, "alg of another type": {"alg": "ES384"}, "crv P-384": {"crv": "P-384"},
		"crv secp256k1": {"crv": "secp256k1"}, "crv in lower case": {"crv": "p-256"}, "kty OKP": {"kty": "OKP"}, "kty in lower case": {"kty": "ec"}, "no crv": {"crv": nil},
		"no y": {"y": nil}, "y is x": {"y": x}, "x and y exchanged": {"x": y, "y": x}, "x and y are 0": {"x": b64(make([]byte, 32)), "y": b64(make([]byte, 32))},
		"x beyond the field": {"x": b64([]byte(strings.Repeat("\xff", 32)))}, "x with 33 bytes": {"x": b64(append([]byte{0}, unb64(x)...))}, "x with 31 bytes": {"x": b64(unb64(x)[1:])},
		"x padded": {"x": x + "="}, "x with a newline": {"x": x[:20] + "\n" + x[20:]}, "x in base64": {"x": "+/" + x[2:]}, "x is a number": {"x": 1}, "X beside x": {"X": x},
	} {
		key("jwk: "+name, merged(jwk, change))
	}
	for name, v := range map[string]any{
		"none": nil, "null": jsonNull, "empty": object{}, "a string": text(jwk), "an array": []any{jwk}, "symmetric": object{"kty": "oct", "k": "AAAA"},
		"of an unknown type": object{"kty": "LATTICE", "x": "AAAA"}, "X25519": object{"kty": "OKP", "crv": "X25519", "x": x}, "Ed448": object{"kty": "OKP", "crv": "Ed448", "x": x},
		"RSA with e 1": object{"kty": "RSA", "n": b64([]byte(strings.Repeat("\xff", 256))), "e": "AQ"}, "Ed25519 under alg ES256": attesttest.PublicJWK(f.t, f.holder2),
	} {
		key("jwk: "+name, v)
	}
	f.proofCase("jwk: with kid, use and unknown members", "allow", func(token string) string {
		return f.proof(token, object{"jwk": merged(jwk, object{"kid": "x", "use": "sig", "alg": "ES256", "key_ops": []string{"verify"}, "foo": "bar"})}, nil)
	})
	f.proofCase("jwk of another key", badProof, func(token string) string {
		return f.proof(token, object{"jwk": attesttest.PublicJWK(f.t, f.mallory)}, nil)
	})
	f.proofCase("of another key, well signed", badToken, func(token string) string { return f.proofBy(f.mallory, token, nil, nil) })
	edToken := func() string { return f.token(object{"cnf": object{"jkt": thumb(f.t, f.holder2)}}) }
	for alg, want := range map[string]string{"EdDSA": "allow", "Ed25519": "allow", "ES256": badProof} {
		token := edToken()
		f.add("proof: Ed25519 key under alg "+alg, f.step(want, f.get(token, f.proofBy(f.holder2, token, object{"alg": alg}, nil))))
	}
	f.smallOrder()
}

func unb64(s string) []byte {
	b, err := bytesOf(s)
	if err != nil {
		panic(err)
	}
	return b
}

// smallOrder are Ed25519 keys for which one signature holds for many messages: R is the point, S is 0.
func (f *forge) smallOrder() {
	flip := func(s string) []byte { // little-endian, from big-endian digits
		n, _ := new(big.Int).SetString(s, 16)
		b := n.FillBytes(make([]byte, 32))
		for i := range 16 {
			b[i], b[31-i] = b[31-i], b[i]
		}
		return b
	}
	for name, digits := range map[string]string{
		"order 1": "01", "order 2": "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffec", "order 4": "00",
		"order 8": "05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826", "order 1, not canonical": "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffee",
		"order 1, sign bit": "8000000000000000000000000000000000000000000000000000000000000001",
	} {
		point := flip(digits)
		jkt, _ := thumbOf(`{"crv":"Ed25519","kty":"OKP","x":"` + b64(point) + `"}`)
		token := f.token(object{"cnf": object{"jkt": jkt}})
		in := b64([]byte(text(object{"alg": "EdDSA", "typ": "dpop+jwt", "jwk": object{"kty": "OKP", "crv": "Ed25519", "x": b64(point)}}))) + "." +
			b64([]byte(text(f.proofClaimsOf(token, nil))))
		identity := flip("01")
		f.add("proof: Ed25519 key of small order: "+name, f.step(badProof, f.get(token, in+"."+b64(append(identity, make([]byte, 32)...)))))
	}
}

// proofClaims are the vectors about the claims of a proof.
func (f *forge) proofClaims() {
	claims := func(name, want string, change object) {
		f.proofCase(name, want, func(token string) string { return f.proof(token, nil, change) })
	}
	claims("valid", "allow", nil)
	for name, change := range map[string]object{
		"no jti": {"jti": nil}, "jti is empty": {"jti": ""}, "jti is a number": {"jti": 1}, "jti of 257 bytes": {"jti": strings.Repeat("j", 257)}, "jti with a newline": {"jti": "a\nb"},
		"no htm": {"htm": nil}, "htm is another": {"htm": "POST"}, "htm in lower case": {"htm": "get"}, "htm is empty": {"htm": ""}, "htm is an array": {"htm": []string{"GET"}},
		"no htu": {"htu": nil}, "htu is an array": {"htu": []string{base + path}}, "no iat": {"iat": nil}, "iat is a string": {"iat": "1800000000"}, "iat is null": {"iat": jsonNull},
		"no ath": {"ath": nil}, "ath is empty": {"ath": ""}, "ath is an array": {"ath": []string{"x"}}, "ath of another token": {"ath": dpop.AccessTokenHash("other")},
		"iat 61 s ago": {"iat": vectorNow - 61}, "iat 61 s ahead": {"iat": vectorNow + 61}, "iat an hour ago": {"iat": vectorNow - 3600}, "iat in milliseconds": {"iat": int64(vectorNow) * 1000},
		"exp in the past": {"exp": vectorNow - 61}, "nbf ahead": {"nbf": vectorNow + 61}, "lifetime over 24 h": {"exp": vectorNow + 86401},
		"HTU beside htu": {"HTU": "https://evil.test"}, "Ath beside ath": {"Ath": "x"}, "aud is an object": {"aud": object{}}, "iss with NUL": {"iss": "a\x00"},
		"nonce is empty": {"nonce": ""}, "nonce is a number": {"nonce": 1}, "nonce with a space": {"nonce": "a b"}, "nonce with a quote": {"nonce": `a"b`}, "nonce of 513 bytes": {"nonce": strings.Repeat("n", 513)},
	} {
		claims(name, badProof, change)
	}
	for name, change := range map[string]object{
		"iat 60 s ago": {"iat": vectorNow - 60}, "iat 60 s ahead": {"iat": vectorNow + 60}, "iat with a fraction": {"iat": vectorNow - 59.5}, "exp ahead": {"exp": vectorNow + 30},
		"nonce nobody asked for": {"nonce": "abc"}, "unknown claims": {"foo": "bar"}, "iss and aud": {"iss": "me", "aud": []string{"a", "b"}}, "jti of 256 bytes": {"jti": strings.Repeat("j", 256)},
	} {
		claims(name, "allow", change)
	}
	for name, change := range map[string]func(ath string) string{
		"padded": func(a string) string { return a + "=" }, "truncated": func(a string) string { return a[:42] }, "in capitals": strings.ToUpper,
		"with trailing bits": func(a string) string { return a[:42] + nextBits(a) }, "in hexadecimal": func(a string) string { return fmt.Sprintf("%x", unb64(a)) }, "with a newline": func(a string) string { return a + "\n" },
	} {
		f.proofCase("ath "+name, badProof, func(token string) string {
			return f.proof(token, nil, object{"ath": change(dpop.AccessTokenHash(token))})
		})
	}
	f.urls()
}

// urls are the spellings of htu for the request https://orders.test/api/eu/42, and the requests whose URL is unusual.
func (f *forge) urls() {
	for htu, want := range map[string]string{
		base + path + "?q=1#f": "allow", base + path + "?": "allow", base + path + "#": "allow", "HTTPS://ORDERS.test" + path: "allow", "https://orders.test:443" + path: "allow",
		base + path + "/": badProof, base + "/api/eu/43": badProof, base + "/api/eu/./42": badProof, base + "/api/x/../eu/42": badProof, base + "/api/%65u/42": badProof,
		base + "/api//eu/42": badProof, base + "/API/eu/42": badProof, base: badProof, base + "/": badProof, path: badProof, "//orders.test" + path: badProof, "": badProof,
		"http://orders.test" + path: badProof, "https://orders.test:8443" + path: badProof, "https://orders.test:80" + path: badProof, "https://orders.test:443:443" + path: badProof,
		"https://orders.test:" + path: badProof, "https://orders.test:0443" + path: badProof, "https://orders.test." + path: badProof, "https://evil.test" + path: badProof,
		"https://orders.test@evil.test" + path: badProof, "https://ann@orders.test" + path: badProof, "https:/orders.test" + path: badProof, "https:\\\\orders.test" + path: badProof,
		" " + base + path: badProof, base + path + "\n": badProof, base + "/api/eu/42\u00e9": badProof, "ftp://orders.test" + path: badProof, "https://" + path: badProof,
		base + "/api/eu/42%00": badProof, base + "/api/eu%2f42": badProof, "https://ordErs.test" + "/api/EU/42": badProof,
	} {
		f.proofCase("htu "+text(htu), want, func(token string) string { return f.proof(token, nil, object{"htu": htu}) })
	}
	for _, c := range []struct{ name, method, url, htm, htu, want string }{
		{"query of the request", "GET", base + path + "?q=1&x=%2f", "GET", base + path, "allow"},
		{"POST", "POST", base + path, "POST", base + path, "allow"},
		{"POST with a proof for GET", "POST", base + path, "GET", base + path, badProof},
		{"method in lower case", "get", base + path, "GET", base + path, badProof},
		{"escaped path", "GET", base + "/api/a%2Fb", "GET", base + "/api/a%2Fb", "allow"},
		{"escape in the other case", "GET", base + "/api/a%2Fb", "GET", base + "/api/a%2fb", badProof},
		{"escape of a slash", "GET", base + "/api/a%2Fb", "GET", base + "/api/a/b", badProof},
		{"root", "GET", base + "/", "GET", base, "allow"},
		{"dot segments as sent", "GET", base + "/api/x/../y", "GET", base + "/api/x/../y", "allow"},
		{"dot segments removed", "GET", base + "/api/x/../y", "GET", base + "/api/y", badProof},
		{"two slashes", "GET", base + "/api//y", "GET", base + "/api//y", "allow"},
		{"two slashes as one", "GET", base + "/api//y", "GET", base + "/api/y", badProof},
		{"host of the request does not count", "GET", "https://evil.test" + path, "GET", base + path, "allow"},
		{"htu with the host of the request", "GET", "https://evil.test" + path, "GET", "https://evil.test" + path, badProof},
		{"port of the request does not count", "GET", "https://orders.test:8443" + path, "GET", base + path, "allow"},
		{"semicolon in the path", "GET", base + "/api/eu;v=1/42", "GET", base + "/api/eu;v=1/42", "allow"},
	} {
		token := f.token(nil)
		r := f.get(token, f.proof(token, nil, object{"htm": c.htm, "htu": c.htu}))
		r.Method, r.URL = c.method, c.url
		f.add("url: "+c.name, f.step(c.want, r))
	}
}
