package verify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/web/verify"
)

const badToken = "401 invalid_token"

// tokenHeaders are the vectors about the form, header, key and signature of a token.
func (f *forge) tokenHeaders() {
	f.tokenForms()
	f.tokenParameters()
	f.tokenKeys()
	f.tokenSignatures()
}

func (f *forge) tokenForms() {
	good := f.token(nil)
	part := strings.Split(good, ".")
	f.tokenCase("valid", "allow", good)
	f.tokenCase("valid, Ed25519", "allow", attesttest.Forge(f.t, f.second, f.head(object{"alg": "EdDSA", "kid": "k2"}), f.claims(nil)))
	f.tokenCase("valid, alg Ed25519 of RFC 9864", "allow", attesttest.Forge(f.t, f.second, f.head(object{"alg": "Ed25519", "kid": "k2"}), f.claims(nil)))
	for name, token := range map[string]string{
		"opaque": "abcdef", "two parts": part[0] + "." + part[1], "four parts": good + ".AAAA", "five parts (JWE)": good + ".AAAA.AAAA",
		"empty signature": part[0] + "." + part[1] + ".", "empty payload": part[0] + ".." + part[2], "empty header": "." + part[1] + "." + part[2],
		"dots only": "..", "trailing dot": good + ".", "leading dot": "." + good, "padded signature": good + "==",
		"payload in base64 instead of base64url": part[0] + "." + part[1][:8] + "+/" + part[1][10:] + "." + part[2],
		"non-zero trailing bits":                 part[0] + "." + part[1] + "." + part[2][:len(part[2])-1] + nextBits(part[2]),
		"header is not JSON":                     b64([]byte("ES256")) + "." + part[1] + "." + part[2],
		"header is an array":                     attesttest.Forge(f.t, f.issuer, `["ES256"]`, f.claims(nil)),
		"header is null":                         attesttest.Forge(f.t, f.issuer, `null`, f.claims(nil)),
		"payload is a string":                    attesttest.Forge(f.t, f.issuer, f.head(nil), `"ann"`),
		"payload is null":                        attesttest.Forge(f.t, f.issuer, f.head(nil), `null`),
		"payload is an array":                    attesttest.Forge(f.t, f.issuer, f.head(nil), `[{}]`),
		"payload ends early":                     attesttest.Forge(f.t, f.issuer, f.head(nil), strings.TrimSuffix(text(f.claims(nil)), "}")),
		"payload with a second object":           f.raw(`}{}`),
		"payload with a byte order mark":         attesttest.Forge(f.t, f.issuer, f.head(nil), "\ufeff"+text(f.claims(nil))),
		"payload with a comment":                 f.raw(`/**/}`),
		"payload with a trailing comma":          f.raw(`,}`),
		"payload with NaN":                       f.raw(`,"x":NaN}`),
		"payload with a leading zero":            f.raw(`,"x":01}`),
		"payload with a tab in a string":         f.raw(",\"x\":\"a\tb\"}"),
		"payload with invalid UTF-8":             f.raw(",\"x\":\"\xff\"}"),
		"payload with overlong UTF-8":            f.raw(",\"x\":\"\xc0\xaf\"}"),
		"payload with a surrogate in UTF-8":      f.raw(",\"x\":\"\xed\xa0\x80\"}"),
		"payload with a lone surrogate":          f.raw(`,"x":"\ud800"}`),
		"payload with an unknown escape":         f.raw(`,"x":"\q"}`),
		"17 levels":                              f.raw(`,"x":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `}`),
		"300 members":                            f.raw(`,"x":{"a0":0` + many(300) + `}}`),
		"larger than 8 KiB":                      f.token(object{"x": strings.Repeat("x", 7<<10)}),
	} {
		f.tokenCase(name, badToken, token)
	}
	f.tokenCase("white space around the payload", "allow", attesttest.Forge(f.t, f.issuer, f.head(nil), " \t\r\n"+text(f.claims(nil))+"\n"))
	f.tokenCase("escaped name of a claim", "allow", strings.Join([]string{f.raw(`,"\u0078":"\u00e9\ud83d\ude00"}`)}, ""))
	f.tokenCase("16 levels", "allow", f.raw(`,"x":`+strings.Repeat("[", 15)+strings.Repeat("]", 15)+`}`))
	f.tokenCase("brackets in a string are no levels", "allow", f.token(object{"x": strings.Repeat("[{", 40)}))
}

// nextBits is the last character of a base64url text with its lowest bit set, which encodes no data.
func nextBits(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, s[len(s)-1])|1])
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"m` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":0`)
	}
	return b.String()
}

func (f *forge) tokenParameters() {
	forged := func(change object) string {
		return attesttest.Forge(f.t, f.issuer, f.head(change), f.claims(nil))
	}
	body := "." + b64([]byte(text(f.claims(nil)))) + "."
	f.tokenCase("alg none without signature", "401 invalid_token", b64([]byte(`{"alg":"none","typ":"at+jwt"}`))+body)
	f.tokenCase("alg none with a signature", badToken, b64([]byte(`{"alg":"none","typ":"at+jwt","kid":"k1"}`))+body+"AAAA")
	for name, secret := range f.publicTexts() {
		in := b64([]byte(`{"alg":"HS256","typ":"at+jwt","kid":"k1"}`)) + strings.TrimSuffix(body, ".")
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(in))
		f.tokenCase("HS256 with the public key as "+name, badToken, in+"."+b64(m.Sum(nil)))
	}
	for _, alg := range []string{"None", "nOnE", "ES256K", "ES384", "ES512", "RS1", "RS256", "PS256", "HS512", "es256", "ES256 ", "EdDSA", "Ed448", "dir", ""} {
		f.tokenCase("alg "+text(alg)+" on a P-256 key", badToken, forged(object{"alg": alg}))
	}
	f.tokenCase("no alg", badToken, forged(object{"alg": nil}))
	f.tokenCase("alg is an array", badToken, forged(object{"alg": []string{"ES256"}}))
	f.tokenCase("ES256 on an Ed25519 key", badToken, attesttest.Forge(f.t, f.issuer, f.head(object{"kid": "k2"}), f.claims(nil)))
	for _, typ := range []string{"at+jwt", "AT+JWT", "application/at+jwt", "Application/At+Jwt"} {
		f.tokenCase("typ "+typ, "allow", forged(object{"typ": typ}))
	}
	for _, typ := range []any{nil, "", "JWT", "jwt", "dpop+jwt", "ebb-task+jwt", "secevent+jwt", "at+jwt ", "application/application/at+jwt", "text/at+jwt", 1, []string{"at+jwt"}} {
		f.tokenCase("typ "+text(typ), badToken, forged(object{"typ": typ}))
	}
	for name, change := range map[string]object{
		"crit": {"crit": []string{"exp"}}, "crit with a value": {"crit": []string{"b64"}, "b64": false}, "empty crit": {"crit": []string{}},
		"b64 false": {"b64": false}, "b64 true": {"b64": true}, "zip": {"zip": "DEF"}, "enc": {"enc": "A128GCM"}, "cty JWT": {"cty": "JWT"},
		"jku": {"jku": "https://evil.test/jwks"}, "x5u": {"x5u": "https://evil.test/x"}, "x5c": {"x5c": []string{"AAAA"}},
		"jwk": {"jwk": attesttest.PublicJWK(f.t, f.issuer)}, "ALG beside alg": {"ALG": "ES256"}, "Kid beside kid": {"Kid": "k2"},
		"CRIT": {"CRIT": []string{"x"}}, "kid with the Kelvin sign": {"\u212aid": "k2"}, "Foo beside foo": {"foo": 1, "Foo": 2},
	} {
		f.tokenCase("header with "+name, badToken, forged(change))
	}
	f.tokenCase("header with alg twice", badToken, attesttest.Forge(f.t, f.issuer, `{"alg":"none","alg":"ES256","typ":"at+jwt","kid":"k1"}`, f.claims(nil)))
	f.tokenCase("header with alg twice, once escaped", badToken, attesttest.Forge(f.t, f.issuer, `{"\u0061lg":"none","alg":"ES256","typ":"at+jwt","kid":"k1"}`, f.claims(nil)))
	f.tokenCase("header with an unknown parameter", "allow", forged(object{"foo": "bar", "x5t": "AAAA"}))
}

// publicTexts are forms of the issuer's public key that an HMAC could be keyed with.
func (f *forge) publicTexts() map[string][]byte {
	der, err := x509.MarshalPKIXPublicKey(f.issuer.Public())
	if err != nil {
		f.t.Fatal(err)
	}
	return map[string][]byte{
		"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"JWK": []byte(text(f.jwk(f.issuer, object{"kid": "k1", "use": "sig", "alg": "ES256"}))),
	}
}

func (f *forge) tokenKeys() {
	signed := func(k jose.Signer, kid any) string {
		return attesttest.Forge(f.t, k, f.head(object{"kid": kid}), f.claims(nil))
	}
	f.tokenCase("key of an attacker under kid k1", badToken, signed(f.mallory, "k1"))
	for _, kid := range []string{"k9", "K1", "k1 ", "../../dev/null", "' or 1=1 --", "", "k1\x00", "k\u00e9", strings.Repeat("k", 257)} {
		f.tokenCase("kid "+text(kid[:min(len(kid), 20)]), badToken, signed(f.issuer, kid))
	}
	f.tokenCase("kid is a number", badToken, signed(f.issuer, 1))
	f.tokenCase("no kid, one key for the algorithm", "allow", signed(f.issuer, nil))
	f.tokenCase("no kid, two keys for the algorithm", badToken, signed(f.issuer, nil)).JWKS = []string{"two-for-es256"}
	f.tokenCase("no kid in token and key", "allow", signed(f.issuer, nil)).JWKS = []string{"one-without-kid"}
	f.tokenCase("kid, and the key has none", badToken, signed(f.issuer, "k1")).JWKS = []string{"one-without-kid"}
	for set, want := range map[string]string{
		"down": "503", "no-key": "503", "not-json": "503", "same-kid": "503", "same-kid-two-types": "503", "with-private": "503",
		"with-symmetric": "503", "with-unknown-type": "allow", "for-encryption": badToken, "key-ops-sign": badToken, "key-ops-verify": "allow",
		"other-alg": badToken, "point-not-on-curve": badToken, "padded-coordinates": badToken, "keys-twice": "503", "keys-and-KEYS": "503",
		"text-after-the-set": "503", "key-member-twice": "503", "keys-is-not-an-array": "503", "rotated": badToken,
	} {
		f.tokenCase("keys: "+set, want, f.token(nil)).JWKS = []string{set}
	}
	f.tokenCase("keys: small-order-ed25519", badToken, signed(f.issuer, "k2")).JWKS = []string{"small-order-ed25519"}
}

func (f *forge) tokenSignatures() {
	for name, c := range signatures() {
		want := badToken
		if c.valid {
			want = "allow"
		}
		f.tokenCase(name, want, f.resigned(f.token(nil), c.change))
	}
	f.tokenCase("signature in DER", badToken, f.asn1Signature(f.issuer, f.token(nil)))
	a, b := strings.Split(f.token(nil), "."), strings.Split(f.token(nil), ".")
	f.tokenCase("signature of another token", badToken, a[0]+"."+a[1]+"."+b[2])
	f.tokenCase("payload of another token", badToken, a[0]+"."+b[1]+"."+a[2])
	f.tokenCase("header of another token", badToken, b64([]byte(`{"alg":"ES256","kid":"k1","typ":"at+jwt","a":1}`))+"."+a[1]+"."+a[2])
}

// tokenClaims are the vectors about the claims of a token.
func (f *forge) tokenClaims() {
	f.tokenNames()
	f.tokenTimes()
	f.tokenBinding()
}

func (f *forge) tokenNames() {
	other := "https://evil.test"
	for name, change := range map[string]object{
		"no iss": {"iss": nil}, "iss of another": {"iss": other}, "iss with a slash": {"iss": issuer + "/"}, "iss in capitals": {"iss": "HTTPS://EBB.TEST"},
		"iss with a default port": {"iss": issuer + ":443"}, "iss is an array": {"iss": []string{issuer}}, "iss is empty": {"iss": ""},
		"no aud": {"aud": nil}, "aud of another server": {"aud": other}, "aud with a slash": {"aud": resource + "/"}, "aud is a prefix": {"aud": base},
		"aud in capitals": {"aud": strings.ToUpper(resource)}, "aud is an empty array": {"aud": []string{}}, "aud has two": {"aud": []string{resource, other}},
		"aud twice the same": {"aud": []string{resource, resource}}, "aud with a null": {"aud": []any{resource, nil}}, "aud is an object": {"aud": object{resource: 1}},
		"aud is nested": {"aud": []any{[]string{resource}}}, "aud with a newline": {"aud": resource + "\n"}, "aud of the issuer's API": {"aud": issuer + "/v1", "scope": "operator"},
		"two audiences and azp": {"aud": []string{resource, other}, "azp": resource},
		"no sub":                {"sub": nil}, "empty sub": {"sub": ""}, "sub is a number": {"sub": 1}, "sub with NUL": {"sub": "ann\x00"}, "sub with a newline": {"sub": "ann\nroot"},
		"sub with a bidi mark": {"sub": "ann\u202eroot"}, "sub of 2049 bytes": {"sub": strings.Repeat("a", 2049)}, "no client_id": {"client_id": nil},
		"client_id with C1": {"client_id": "sbx\u009b1"}, "no jti": {"jti": nil}, "jti of 257 bytes": {"jti": strings.Repeat("j", 257)}, "jti is an array": {"jti": []string{"a"}},
		"no task": {issuer + verify.TaskClaim: nil}, "task is empty": {issuer + verify.TaskClaim: ""}, "task is a number": {issuer + verify.TaskClaim: 1},
		"task under another issuer": {issuer + verify.TaskClaim: nil, other + verify.TaskClaim: "tsk_1"},
		"ancestors is an array":     {issuer + verify.AncestorsClaim: []string{"tsk_0"}}, "parents is a number": {issuer + verify.ParentsClaim: 7},
		"AUD beside aud": {"AUD": other}, "Sub beside sub": {"Sub": "root"}, "EXP beside exp": {"EXP": 1}, "Cnf without cnf": {"cnf": nil, "Cnf": object{"jkt": "x"}},
		"iss with a long s": {"i\u017fs": other}, "Scope beside scope": {"Scope": "orders:**:*"}, "task_ID": {"task_ID": "x"}, "x and X": {"x": 1, "X": 2},
		"scope is an array": {"scope": []string{"orders:eu/42:read"}}, "scope with two spaces": {"scope": "orders:eu/42:read  orders:x:read"},
		"scope with a bad word": {"scope": "orders:eu/42:read everything"}, "scope with dots": {"scope": "orders:eu/../42:read"},
	} {
		f.tokenCase(name, badToken, f.token(change))
	}
	for _, name := range []string{"iss", "aud", "sub", "exp", "iat", "cnf", "scope"} {
		f.tokenCase(name+" twice", badToken, f.raw(`,`+text(name)+`:`+text(f.claims(nil)[name])+`}`))
	}
	f.tokenCase("cnf.jkt twice", badToken, attesttest.Forge(f.t, f.issuer, f.head(nil), strings.Replace(text(f.claims(nil)), `"jkt":`, `"jkt":"x","jkt":`, 1)))
	f.tokenCase("aud twice, once escaped", badToken, f.raw(`,"\u0061ud":"`+resource+`"}`))
	for name, change := range map[string]object{
		"azp of another client": {"azp": "sbx_2"}, "aud is an array of one": {"aud": []string{resource}}, "unknown claims": {"x": object{"Y": 1, "y": 2}},
		"no txn": {"txn": nil}, "sub in another script": {"sub": "\u00e5nn \u5c71"}, "scope with any action": {"scope": "orders:eu/**:*"},
		"two scopes": {"scope": "billing:x:read orders:eu/42:read"}, "act": {"act": object{"sub": "agent"}},
		"upper-case name without a twin": {"Custom": 1},
	} {
		f.tokenCase(name, "allow", f.token(change))
	}
	for name, scope := range map[string]any{"no scope": nil, "another action": "orders:eu/42:write", "another path": "orders:eu/43:read", "another provider": "billing:eu/42:read",
		"a pattern above": "orders:*:read", "a longer path": "orders:eu/42/7:read"} {
		f.tokenCase("scope: "+name, "403 insufficient_scope", f.token(object{"scope": scope}))
	}
}

func (f *forge) tokenTimes() {
	for name, change := range map[string]object{
		"no exp": {"exp": nil}, "exp in the past": {"exp": vectorNow - 1}, "exp is now": {"exp": vectorNow}, "exp within the leeway of 5 s": {"exp": vectorNow - 4},
		"exp is a string": {"exp": "1800000540"}, "exp is null": {"exp": jsonNull}, "exp is 0": {"exp": 0}, "exp is negative": {"exp": -1}, "exp is 1e30": {"exp": 1e30},
		"exp beyond year 9999": {"exp": 253402300800}, "exp is true": {"exp": true}, "lifetime over 24 h": {"exp": vectorNow - 60 + 86401},
		"no iat": {"iat": nil}, "iat 6 s ahead": {"iat": vectorNow + 6}, "iat is a string": {"iat": "1799999940"}, "iat after exp": {"iat": vectorNow + 4, "exp": vectorNow + 3},
		"nbf 6 s ahead": {"nbf": vectorNow + 6}, "nbf is a string": {"nbf": "0"}, "nbf is 0": {"nbf": 0},
	} {
		f.tokenCase(name, badToken, f.token(change))
	}
	for name, change := range map[string]object{
		"exp in 1 s": {"exp": vectorNow + 1}, "exp in half a second": {"exp": vectorNow + 0.5}, "iat 5 s ahead": {"iat": vectorNow + 5}, "nbf 5 s ahead": {"nbf": vectorNow + 5},
		"nbf in the past": {"nbf": vectorNow - 60}, "lifetime of 24 h": {"exp": vectorNow - 60 + 86400}, "iat with a fraction": {"iat": vectorNow - 60.25},
	} {
		f.tokenCase(name, "allow", f.token(change))
	}
	exact := func(exp string) string {
		return attesttest.Forge(f.t, f.issuer, f.head(nil), strings.Replace(text(f.claims(nil)), `"exp":1800000540`, `"exp":`+exp, 1))
	}
	f.tokenCase("exp as 18.0000054e8", "allow", exact("18.0000054e8"))
	f.tokenCase("exp as 1e400", badToken, exact("1e400"))
	f.tokenCase("exp of 33 characters", badToken, exact("1800000540."+strings.Repeat("0", 22)))
	f.tokenCase("exp in hexadecimal", badToken, exact("0x6b49d41c"))
}

// jsonNull is encoded as null; a nil value would remove the member.
var jsonNull = json.RawMessage("null")

func (f *forge) tokenBinding() {
	jkt := thumb(f.t, f.holder)
	for name, cnf := range map[string]any{
		"no cnf": nil, "cnf is a string": jkt, "cnf is empty": object{}, "cnf is an array": []string{jkt}, "cnf with jwk": object{"jwk": attesttest.PublicJWK(f.t, f.holder)},
		"cnf with jkt and more": object{"jkt": jkt, "kid": "x"}, "cnf with two methods": object{"jkt": jkt, "x5t#S256": jkt}, "cnf.JKT": object{"JKT": jkt},
		"jkt padded": object{"jkt": jkt + "="}, "jkt truncated": object{"jkt": jkt[:42]}, "jkt empty": object{"jkt": ""}, "jkt is an array": object{"jkt": []string{jkt}},
		"jkt with trailing bits": object{"jkt": jkt[:42] + nextBits(jkt)}, "jkt with a newline": object{"jkt": jkt[:42] + "\n"}, "jkt of another key": object{"jkt": thumb(f.t, f.mallory)},
		"bound to a certificate": object{"x5t#S256": jkt},
	} {
		f.tokenCase(name, badToken, f.token(object{"cnf": cnf}))
	}
}
