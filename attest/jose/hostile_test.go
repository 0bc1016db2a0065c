package jose_test

import (
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// TestHostile is the table H1 to H24 of the hostile cases for one signed
// document: each is refused for the caller's fault, with the reason given.
func TestHostile(t *testing.T) {
	t.Parallel()
	key, other := p256(t), p256(t)
	pub := newKey(t, "k1", &key.PublicKey)
	sign := func(header, body string) string { return forge(t, key, header, body) }
	body := func(change map[string]any) string { return sign(goodHeader, payload(t, change)) }
	raw := func(more string) string { return sign(goodHeader, with(payload(t, nil), more)) }
	head := func(h string) string { return sign(h, payload(t, nil)) }
	ok := sign(goodHeader, payload(t, nil))
	part := strings.Split(ok, ".")
	unsigned := func(alg string) string { return b64(`{"alg":"`+alg+`","typ":"JWT"}`) + "." + part[1] }
	attackerJWK, err := jose.MarshalPublicJWK(newKey(t, "k1", &other.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	hs := func(secret []byte) string {
		input := unsigned("HS256")
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(input))
		return input + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
	}
	flipped := flip(t, part[2])
	foreign := strings.Split(sign(goodHeader, payload(t, map[string]any{"sub": "root"})), ".")
	proof := jose.Profile{Types: []string{"dpop+jwt"}, Algs: []jose.Alg{jose.ES256}, AnyIssuer: true, AnyAudience: true, NoExp: true}

	tests := []struct {
		name   string
		token  string
		p      *jose.Profile
		reason jose.Reason
	}{
		{"H1 none, empty signature", unsigned("none") + ".", nil, jose.ReasonMalformed},
		{"H1 none with signature", unsigned("none") + "." + part[2], nil, jose.ReasonAlgorithm},
		{"H1 None", unsigned("None") + "." + part[2], nil, jose.ReasonAlgorithm},
		{"H1 nOnE", unsigned("nOnE") + "." + part[2], nil, jose.ReasonAlgorithm},
		{"H1 es256", head(`{"alg":"es256","typ":"JWT"}`), nil, jose.ReasonAlgorithm},
		{"H1 no alg", head(`{"typ":"JWT"}`), nil, jose.ReasonAlgorithm},
		{"H1 alg null", head(`{"alg":null}`), nil, jose.ReasonAlgorithm},
		{"H1 alg array", head(`{"alg":["ES256"]}`), nil, jose.ReasonAlgorithm},
		{"H2 HS256 with DER of the public key", hs(der), nil, jose.ReasonAlgorithm},
		{"H2 RS256 header over EC key", head(`{"alg":"RS256","kid":"k1"}`), nil, jose.ReasonAlgorithm},
		{"H2 alg outside the profile", head(`{"alg":"PS512","kid":"k1"}`), nil, jose.ReasonAlgorithm},
		{"H4 signature of another token", part[0] + "." + part[1] + "." + foreign[2], nil, jose.ReasonSignature},
		{"H4 truncated", ok[:len(ok)-2], nil, jose.ReasonSignature},
		{"H4 longer", ok + "AAAA", nil, jose.ReasonSignature},
		{"H4 one bit flipped", part[0] + "." + part[1] + "." + flipped, nil, jose.ReasonSignature},
		{"H4 ASN.1 signature", part[0] + "." + part[1] + "." + asn1Of(t, key, part[0]+"."+part[1]), nil, jose.ReasonSignature},
		{"H4 zero signature", part[0] + "." + part[1] + "." + strings.Repeat("A", 86), nil, jose.ReasonSignature},
		{"H5 jwk", forge(t, other, `{"alg":"ES256","typ":"JWT","jwk":`+string(attackerJWK)+`}`, payload(t, nil)), nil, jose.ReasonHeader},
		{"H6 jku", head(`{"alg":"ES256","jku":"http://169.254.169.254/jwks"}`), nil, jose.ReasonHeader},
		{"H6 x5u", head(`{"alg":"ES256","x5u":"http://169.254.169.254/c"}`), nil, jose.ReasonHeader},
		{"H6 x5c", head(`{"alg":"ES256","x5c":["MIIB"]}`), nil, jose.ReasonHeader},
		{"H6 JKU", head(`{"alg":"ES256","JKU":"http://a.example"}`), nil, jose.ReasonMalformed},
		{"H7 kid path", head(`{"alg":"ES256","kid":"../../dev/null"}`), nil, jose.ReasonKeyUnknown},
		{"H7 kid SQL", head(`{"alg":"ES256","kid":"' OR 1=1 --"}`), nil, jose.ReasonKeyUnknown},
		{"H7 kid 10 kB", head(`{"alg":"ES256","kid":"` + strings.Repeat("k", 10_000) + `"}`), nil, jose.ReasonHeader},
		{"H7 kid NUL", head(`{"alg":"ES256","kid":"k1\u0000"}`), nil, jose.ReasonHeader},
		{"H7 kid number", head(`{"alg":"ES256","kid":1}`), nil, jose.ReasonHeader},
		{"H7 kid empty", head(`{"alg":"ES256","kid":""}`), nil, jose.ReasonHeader},
		{"H8 crit unknown", head(`{"alg":"ES256","crit":["x"],"x":1}`), nil, jose.ReasonHeader},
		{"H8 crit empty", head(`{"alg":"ES256","crit":[]}`), nil, jose.ReasonHeader},
		{"H8 b64", head(`{"alg":"ES256","b64":false}`), nil, jose.ReasonHeader},
		{"H8 zip", head(`{"alg":"ES256","zip":"DEF"}`), nil, jose.ReasonHeader},
		{"H9 JWE, five parts", "e30.e30.e30.e30.e30", nil, jose.ReasonMalformed},
		{"H9 enc", head(`{"alg":"ES256","enc":"A256GCM"}`), nil, jose.ReasonHeader},
		{"H9 nested JWT", head(`{"alg":"ES256","cty":"JWT"}`), nil, jose.ReasonHeader},
		{"H10 flattened JSON", `{"protected":"` + part[0] + `","payload":"` + part[1] + `","signature":"` + part[2] + `"}`, nil, jose.ReasonMalformed},
		{"H10 leading space", " " + ok, nil, jose.ReasonMalformed},
		{"H10 trailing newline", ok + "\n", nil, jose.ReasonMalformed},
		{"H10 newline inside", ok[:20] + "\n" + ok[20:], nil, jose.ReasonMalformed},
		{"H10 padding", ok + "==", nil, jose.ReasonMalformed},
		{"H10 question mark", ok[:20] + "?" + ok[20:], nil, jose.ReasonMalformed},
		{"H10 plus", part[0] + "+." + part[1] + "." + part[2], nil, jose.ReasonMalformed},
		{"H10 two parts", part[0] + "." + part[1], nil, jose.ReasonMalformed},
		{"H10 four parts", ok + ".e30", nil, jose.ReasonMalformed},
		{"H10 empty header", "." + part[1] + "." + part[2], nil, jose.ReasonMalformed},
		{"H10 empty payload", part[0] + ".." + part[2], nil, jose.ReasonMalformed},
		{"H10 only dots", "..", nil, jose.ReasonMalformed},
		{"H10 empty", "", nil, jose.ReasonMalformed},
		{"H10 unused bits of the signature", ok[:len(ok)-1] + nextChar(ok[len(ok)-1]), nil, jose.ReasonMalformed},
		{"H10 non-ASCII", part[0] + "é." + part[1] + "." + part[2], nil, jose.ReasonMalformed},
		{"H11 duplicate aud", raw(`"aud":"https://evil.example"`), nil, jose.ReasonMalformed},
		{"H11 duplicate by escape", raw(`"\u0061ud":"https://evil.example"`), nil, jose.ReasonMalformed},
		{"H11 duplicate nested", raw(`"cnf":{"jkt":"a","jkt":"b"}`), nil, jose.ReasonMalformed},
		{"H11 duplicate alg", head(`{"alg":"ES256","alg":"none"}`), nil, jose.ReasonMalformed},
		{"H11 AUD beside aud", raw(`"AUD":"https://evil.example"`), nil, jose.ReasonMalformed},
		{"H11 Sub beside sub", raw(`"Sub":"root"`), nil, jose.ReasonMalformed},
		{"H11 Exp alone", sign(goodHeader, with(payload(t, map[string]any{"exp": nil}), `"Exp":9999999999`)), nil, jose.ReasonMalformed},
		{"H11 long s in sub", raw("\"\u017fub\":\"root\""), nil, jose.ReasonMalformed},
		{"H11 Kelvin sign in task_id", raw("\"tas\u212a_id\":\"t\""), nil, jose.ReasonMalformed},
		{"H11 siblings that fold", raw(`"role":"a","ROLE":"b"`), nil, jose.ReasonMalformed},
		{"H11 ALG", head(`{"alg":"ES256","ALG":"none"}`), nil, jose.ReasonMalformed},
		{"H11 trailing object", sign(goodHeader, payload(t, nil)+"{}"), nil, jose.ReasonMalformed},
		{"H11 trailing comma", sign(goodHeader, strings.Replace(payload(t, nil), "}", ",}", 1)), nil, jose.ReasonMalformed},
		{"H11 array payload", sign(goodHeader, "["+payload(t, nil)+"]"), nil, jose.ReasonMalformed},
		{"H11 null payload", sign(goodHeader, "null"), nil, jose.ReasonMalformed},
		{"H11 BOM", sign(goodHeader, "\ufeff"+payload(t, nil)), nil, jose.ReasonMalformed},
		{"H11 invalid UTF-8", sign(goodHeader, with(payload(t, nil), "\"x\":\"\xff\"")), nil, jose.ReasonMalformed},
		{"H11 lone surrogate", raw(`"x":"\ud800"`), nil, jose.ReasonMalformed},
		{"H11 comment", sign(goodHeader, payload(t, nil)+"//"), nil, jose.ReasonMalformed},
		{"H13 exp missing", body(map[string]any{"exp": nil}), nil, jose.ReasonExpired},
		{"H13 exp past", body(map[string]any{"exp": epoch.Add(-6 * time.Second).Unix(), "iat": epoch.Add(-time.Minute).Unix()}), nil, jose.ReasonExpired},
		{"H13 exp at the leeway exactly", body(map[string]any{"exp": epoch.Add(-5 * time.Second).Unix(), "iat": epoch.Add(-time.Minute).Unix()}), nil, jose.ReasonExpired},
		{"H13 exp string", body(map[string]any{"exp": "1800000300"}), nil, jose.ReasonClaims},
		{"H13 exp 1e30", raw2(t, sign, `"exp":1e30`), nil, jose.ReasonClaims},
		{"H13 exp 1e999", raw2(t, sign, `"exp":1e999`), nil, jose.ReasonClaims},
		{"H13 exp negative", raw2(t, sign, `"exp":-1`), nil, jose.ReasonClaims},
		{"H13 exp zero", raw2(t, sign, `"exp":0`), nil, jose.ReasonClaims},
		{"H13 exp null", raw2(t, sign, `"exp":null`), nil, jose.ReasonClaims},
		{"H13 exp year 10000", raw2(t, sign, `"exp":253402300800`), nil, jose.ReasonClaims},
		{"H13 exp true", raw2(t, sign, `"exp":true`), nil, jose.ReasonClaims},
		{"H13 nbf future", body(map[string]any{"nbf": epoch.Add(time.Minute).Unix()}), nil, jose.ReasonNotYetValid},
		{"H13 iat future", body(map[string]any{"iat": epoch.Add(time.Minute).Unix()}), nil, jose.ReasonNotYetValid},
		{"H13 exp before iat", body(map[string]any{"iat": epoch.Add(4 * time.Second).Unix(), "exp": epoch.Add(3 * time.Second).Unix()}), nil, jose.ReasonLifetime},
		{"H13 ten years", body(map[string]any{"exp": epoch.AddDate(10, 0, 0).Unix()}), nil, jose.ReasonLifetime},
		{"H13 ten years without iat", body(map[string]any{"iat": nil, "exp": epoch.AddDate(10, 0, 0).Unix()}), nil, jose.ReasonLifetime},
		{"H14 aud missing", body(map[string]any{"aud": nil}), nil, jose.ReasonAudience},
		{"H14 aud empty array", body(map[string]any{"aud": []string{}}), nil, jose.ReasonAudience},
		{"H14 aud null", raw3(t, sign, `"aud":null`), nil, jose.ReasonAudience},
		{"H14 aud array of null", raw3(t, sign, `"aud":[null]`), nil, jose.ReasonAudience},
		{"H14 aud number", body(map[string]any{"aud": 1}), nil, jose.ReasonAudience},
		{"H14 aud object", body(map[string]any{"aud": map[string]any{audience: true}}), nil, jose.ReasonAudience},
		{"H14 aud nested array", body(map[string]any{"aud": []any{[]string{audience}}}), nil, jose.ReasonAudience},
		{"H14 aud ours and another", body(map[string]any{"aud": []string{audience, "x"}}), nil, jose.ReasonAudience},
		{"H14 aud ours twice", body(map[string]any{"aud": []string{audience, audience}}), nil, jose.ReasonAudience},
		{"H14 token endpoint", body(map[string]any{"aud": audience + "/oauth2/token"}), nil, jose.ReasonAudience},
		{"H14 trailing slash", body(map[string]any{"aud": audience + "/"}), nil, jose.ReasonAudience},
		{"H14 letter case", body(map[string]any{"aud": "https://EBB.example"}), nil, jose.ReasonAudience},
		{"H15 iss unknown", body(map[string]any{"iss": "https://evil.example"}), nil, jose.ReasonIssuer},
		{"H15 iss missing", body(map[string]any{"iss": nil}), nil, jose.ReasonIssuer},
		{"H15 iss array", body(map[string]any{"iss": []string{issuer}}), nil, jose.ReasonClaims},
		{"H15 key of another issuer", forge(t, other, goodHeader, payload(t, nil)), nil, jose.ReasonSignature},
		{"H15 iss trailing slash", body(map[string]any{"iss": issuer + "/"}), nil, jose.ReasonIssuer},
		{"H16 at+jwt as workload token", head(`{"alg":"ES256","typ":"at+jwt"}`), nil, jose.ReasonType},
		{"H16 application/at+jwt", head(`{"alg":"ES256","typ":"application/at+jwt"}`), nil, jose.ReasonType},
		{"H16 dpop proof", head(`{"alg":"ES256","typ":"dpop+jwt"}`), nil, jose.ReasonType},
		{"H16 secevent+jwt", head(`{"alg":"ES256","typ":"secevent+jwt"}`), nil, jose.ReasonType},
		{"H16 statuslist+jwt", head(`{"alg":"ES256","typ":"statuslist+jwt"}`), nil, jose.ReasonType},
		{"H16 typ empty", head(`{"alg":"ES256","typ":""}`), nil, jose.ReasonType},
		{"H16 typ number", head(`{"alg":"ES256","typ":1}`), nil, jose.ReasonType},
		{"H16 typ with blank", head(`{"alg":"ES256","typ":"JWT "}`), nil, jose.ReasonType},
		{"H16 workload token as proof", ok, &proof, jose.ReasonType},
		{"H16 untyped as proof", head(`{"alg":"ES256"}`), &proof, jose.ReasonType},
		{"H22 1 MiB", sign(goodHeader, with(payload(t, nil), `"x":"`+strings.Repeat("a", 1<<20)+`"`)), nil, jose.ReasonOversized},
		{"H22 nested 100k", "e30." + b64(nested(100_000)) + ".AAAA", nil, jose.ReasonOversized},
		{"H22 nested within the size", raw(`"x":` + nested(1000)), nil, jose.ReasonMalformed},
		{"H22 nested arrays", raw(`"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500)), nil, jose.ReasonMalformed},
		{"H22 10k claims", "e30." + b64("{"+crowd(10_000)+"}") + ".AAAA", nil, jose.ReasonOversized},
		{"H22 500 claims", raw(crowd(500)), nil, jose.ReasonMalformed},
		{"H24 NUL in sub", body(map[string]any{"sub": "a\x00b"}), nil, jose.ReasonClaims},
		{"H24 ESC in sub", body(map[string]any{"sub": "a\x1b[2J"}), nil, jose.ReasonClaims},
		{"H24 bidi in sub", body(map[string]any{"sub": "a\u202eb"}), nil, jose.ReasonClaims},
		{"H24 zero width in jti", body(map[string]any{"jti": "a\u200bb"}), nil, jose.ReasonClaims},
		{"H24 DEL in client_id", body(map[string]any{"client_id": "a\x7f"}), nil, jose.ReasonClaims},
		{"H24 line separator in sub", body(map[string]any{"sub": "a\u2028"}), nil, jose.ReasonClaims},
		{"H24 C1 in iss", body(map[string]any{"iss": issuer + "\u0085"}), nil, jose.ReasonClaims},
		{"H24 sub empty", body(map[string]any{"sub": ""}), nil, jose.ReasonClaims},
		{"H24 sub number", body(map[string]any{"sub": 1}), nil, jose.ReasonClaims},
		{"H37 jti of 257 bytes", body(map[string]any{"jti": strings.Repeat("j", 257)}), nil, jose.ReasonClaims},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := profile()
			if tc.p != nil {
				p = *tc.p
			}
			c, err := jose.Verify(tc.token, p, one(pub), epoch)
			e, typed := errors.AsType[*jose.Error](err)
			if c != nil || !errors.Is(err, jose.ErrToken) || !typed || e.Reason != tc.reason {
				t.Fatalf("got %+v, %v; want reason %s", c, err, tc.reason)
			}
			if got := errors.Is(err, jose.ErrKeyUnknown); got != (tc.reason == jose.ReasonKeyUnknown) {
				t.Errorf("ErrKeyUnknown: got %v", got)
			}
			checkPublic(t, e.Public)
		})
	}
	if _, err := jose.Verify(ok, profile(), one(pub), epoch); err != nil {
		t.Errorf("the good token at the end: %v", err)
	}
}

// checkPublic holds a sentence to the charset of error_description (RFC 6749,
// section 5.2).
func checkPublic(t *testing.T, s string) {
	t.Helper()
	for _, r := range s {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' {
			t.Errorf("%q is not fit for error_description", s)
		}
	}
	if s == "" {
		t.Error("no public sentence")
	}
}

// raw2 replaces exp by text that encoding/json would not print.
func raw2(t testing.TB, sign func(h, b string) string, exp string) string {
	return sign(goodHeader, with(payload(t, map[string]any{"exp": nil}), exp))
}

func raw3(t testing.TB, sign func(h, b string) string, aud string) string {
	return sign(goodHeader, with(payload(t, map[string]any{"aud": nil}), aud))
}

func asn1Of(t testing.TB, key *ecdsa.PrivateKey, input string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(input))
	sig, err := ecdsa.SignASN1(nil, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(sig)
}

func flip(t testing.TB, sig string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	b[40] ^= 1
	return base64.RawURLEncoding.EncodeToString(b)
}

// nextChar changes only bits that a base64url decoder drops.
func nextChar(c byte) string {
	const abc = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(abc[strings.IndexByte(abc, c)|1])
}

// TestMalleableTwin documents why the token is never a replay key: the twin
// (r, n-s) verifies as well, and has the same digest.
func TestMalleableTwin(t *testing.T) {
	t.Parallel()
	key := p256(t)
	token := forge(t, key, goodHeader, payload(t, nil))
	cut := strings.LastIndexByte(token, '.')
	sig, err := base64.RawURLEncoding.DecodeString(token[cut+1:])
	if err != nil {
		t.Fatal(err)
	}
	s := new(big.Int).Sub(key.Params().N, new(big.Int).SetBytes(sig[32:]))
	s.FillBytes(sig[32:])
	twin := token[:cut+1] + base64.RawURLEncoding.EncodeToString(sig)
	pub := newKey(t, "k1", &key.PublicKey)
	a, errA := jose.Verify(token, profile(), one(pub), epoch)
	b, errB := jose.Verify(twin, profile(), one(pub), epoch)
	if errA != nil || errB != nil || token == twin {
		t.Fatalf("got %v, %v", errA, errB)
	}
	if a.Digest() != b.Digest() {
		t.Errorf("the twins have different digests")
	}
}

// TestCouldNotJudge: Verify returns the error of a key source unchanged.
func TestCouldNotJudge(t *testing.T) {
	t.Parallel()
	key := p256(t)
	down := errors.New("key set not loaded")
	_, err := jose.Verify(forge(t, key, goodHeader, payload(t, nil)), profile(),
		func(jose.Header) (jose.Key, error) { return jose.Key{}, down }, epoch)
	if err != down || errors.Is(err, jose.ErrToken) {
		t.Errorf("got %v, want the error itself", err)
	}
}

// TestZeroProfile: a profile with an empty member accepts no token.
func TestZeroProfile(t *testing.T) {
	t.Parallel()
	key := p256(t)
	pub := newKey(t, "k1", &key.PublicKey)
	token := forge(t, key, goodHeader, payload(t, nil))
	for name, change := range map[string]func(*jose.Profile){
		"all":      func(p *jose.Profile) { *p = jose.Profile{} },
		"algs":     func(p *jose.Profile) { p.Algs = nil },
		"types":    func(p *jose.Profile) { p.Types, p.AllowNoType = nil, false },
		"issuer":   func(p *jose.Profile) { p.Issuer = "" },
		"audience": func(p *jose.Profile) { p.Audience = "" },
	} {
		p := profile()
		change(&p)
		if _, err := jose.Verify(token, p, one(pub), epoch); !errors.Is(err, jose.ErrToken) {
			t.Errorf("%s: got %v, want ErrToken", name, err)
		}
	}
	if _, err := jose.Verify(token, profile(), func(jose.Header) (jose.Key, error) { return jose.Key{}, nil }, epoch); !errors.Is(err, jose.ErrToken) {
		t.Errorf("zero key: got %v", err)
	}
	// A year is over the default lifetime.
	p := profile()
	p.MaxLifetime = 0
	long := forge(t, key, goodHeader, payload(t, map[string]any{"exp": epoch.AddDate(1, 0, 0).Unix()}))
	if _, err := jose.Verify(long, p, one(pub), epoch); !errors.Is(err, jose.ErrToken) {
		t.Errorf("one year: got %v", err)
	}
}
