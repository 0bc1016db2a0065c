package verify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/web/verify"
)

func TestGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	v := w.running(w.config())
	tok, err := v.Verify(w.request(w.token(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if tok.TaskID != "tsk_1" || tok.LeaseID != "lse_1" || tok.Subject != "ann" || tok.ClientID != "sbx_1" || tok.JKT != w.jkt || tok.Txn != "txn_1" || !tok.Scope.Covers(need) {
		t.Errorf("token %+v", tok)
	}
	// The same token with a new proof, from the cache.
	raw := w.token(nil)
	for range 3 {
		if _, err := v.Verify(w.request(raw)); err != nil {
			t.Error(err)
		}
	}
	w.key = ed(t)
	w.jkt = thumb(t, w.key)
	if _, err := v.Verify(w.request(w.token(nil))); err != nil {
		t.Errorf("Ed25519: %v", err)
	}
}

func with(name string, value any) func(map[string]any) {
	return func(c map[string]any) {
		if value == nil {
			delete(c, name)
		} else {
			c[name] = value
		}
	}
}

// Hostile cases at the resource server, by number (standards.md section 4): 401
// invalid_token for every invalid token.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	v := w.running(w.config())
	now := w.now()
	signer, kid, _, err := w.ring.Signer(now)
	if err != nil {
		t.Fatal(err)
	}
	head := func(change func(map[string]any)) map[string]any {
		h := map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": kid}
		if change != nil {
			change(h)
		}
		return h
	}
	mallory := p256(t)
	good := w.token(nil)
	parts := strings.Split(good, ".")
	other := strings.Split(w.token(nil), ".")
	hs := func() string {
		text, _ := json.Marshal(w.claims())
		in := b64([]byte(`{"alg":"HS256","typ":"at+jwt","kid":"`+kid+`"}`)) + "." + b64(text)
		der, _ := x509.MarshalPKIXPublicKey(signer.Public())
		m := hmac.New(sha256.New, der)
		m.Write([]byte(in))
		return in + "." + b64(m.Sum(nil))
	}
	flip := func(s string) string {
		b := []byte(s)
		if at := len(b) / 2; b[at] == 'A' {
			b[at] = 'B'
		} else {
			b[at] = 'A'
		}
		return string(b)
	}
	fold := func(pairs string) string {
		text, _ := json.Marshal(w.claims())
		return strings.TrimSuffix(string(text), "}") + "," + pairs + "}"
	}
	nested := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	cases := map[string]string{
		"H1 alg none":                  b64([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + parts[1] + ".",
		"H1 alg None, signed":          attesttest.Forge(t, signer, head(with("alg", "None")), w.claims()),
		"H1 empty signature":           parts[0] + "." + parts[1] + ".",
		"H2 public key as HMAC secret": hs(),
		"H4 signature of another":      parts[0] + "." + parts[1] + "." + other[2],
		"H4 truncated":                 good[:len(good)-4],
		"H4 bit flipped in payload":    parts[0] + "." + flip(parts[1]) + "." + parts[2],
		"H4 bit flipped in signature":  parts[0] + "." + parts[1] + "." + flip(parts[2]),
		"H5 jwk of the attacker":       attesttest.Forge(t, mallory, head(with("jwk", attesttest.PublicJWK(t, mallory))), w.claims()),
		"H6 jku":                       attesttest.Forge(t, mallory, head(with("jku", "http://169.254.169.254/jwks")), w.claims()),
		"H6 x5u":                       attesttest.Forge(t, mallory, head(with("x5u", "https://evil.test/x")), w.claims()),
		"H7 kid is a path":             attesttest.Forge(t, mallory, head(with("kid", "../../dev/null")), w.claims()),
		"H7 kid is SQL":                attesttest.Forge(t, mallory, head(with("kid", "' or 1=1 --")), w.claims()),
		"H7 kid of 10 kB":              attesttest.Forge(t, signer, head(with("kid", strings.Repeat("k", 6<<10))), w.claims()),
		"H7 kid with NUL":              attesttest.Forge(t, signer, head(with("kid", kid+"\x00")), w.claims()),
		"H7 kid of the right key":      attesttest.Forge(t, mallory, head(nil), w.claims()),
		"H8 crit":                      attesttest.Forge(t, signer, head(with("crit", []string{"x"})), w.claims()),
		"H8 b64 false":                 attesttest.Forge(t, signer, head(with("b64", false)), w.claims()),
		"H8 zip":                       attesttest.Forge(t, signer, head(with("zip", "DEF")), w.claims()),
		"H9 nested JWT":                attesttest.Forge(t, signer, head(with("cty", "JWT")), w.claims()),
		"H9 JWE":                       "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0..aaaa.bbbb.cccc",
		"H10 two dots more":            good + ".x.y",
		"H10 one dot":                  parts[0] + "." + parts[1],
		"H10 padding":                  good + "=",
		"H11 AUD beside aud":           attesttest.Forge(t, signer, head(nil), fold(`"AUD":"https://evil.test"`)),
		"H11 Sub beside sub":           attesttest.Forge(t, signer, head(nil), fold(`"Sub":"root"`)),
		"H11 aud twice":                attesttest.Forge(t, signer, head(nil), fold(`"aud":"`+resource+`"`)),
		"H11 exp twice":                attesttest.Forge(t, signer, head(nil), fold(`"exp":9999999999`)),
		"H13 no exp":                   w.token(with("exp", nil)),
		"H13 exp past":                 w.token(with("exp", now.Unix()-1)),
		"H13 exp within the leeway":    w.token(func(c map[string]any) { c["iat"], c["exp"] = now.Unix()-60, now.Unix()-2 }),
		"H13 exp string":               w.token(with("exp", "9999999999")),
		"H13 exp 1e30":                 w.token(with("exp", 1e30)),
		"H13 exp negative":             w.token(with("exp", -1)),
		"H13 nbf future":               w.token(with("nbf", now.Unix()+60)),
		"H13 iat future":               w.token(with("iat", now.Unix()+60)),
		"H13 ten years":                w.token(with("exp", now.AddDate(10, 0, 0).Unix())),
		"H14 no aud":                   w.token(with("aud", nil)),
		"H14 aud empty":                w.token(with("aud", []string{})),
		"H14 aud with another":         w.token(with("aud", []string{resource, "https://evil.test"})),
		"H14 aud with a slash more":    w.token(with("aud", resource+"/")),
		"H14 aud in capitals":          w.token(with("aud", strings.ToUpper(resource))),
		"H75 aud of another server":    w.token(with("aud", "https://billing.test")),
		"H14 aud is the prefix":        w.token(with("aud", base)),
		"H15 iss unknown":              w.token(with("iss", "https://evil.test")),
		"H15 iss with a slash":         w.token(with("iss", issuer+"/")),
		"H15 no iss":                   w.token(with("iss", nil)),
		"H16 typ JWT":                  attesttest.Forge(t, signer, head(with("typ", "JWT")), w.claims()),
		"H16 no typ":                   attesttest.Forge(t, signer, head(with("typ", nil)), w.claims()),
		"H16 task token":               attesttest.Forge(t, signer, head(with("typ", "ebb-task+jwt")), w.claims()),
		"H16 DPoP proof":               w.proof("GET", base+path, ""),
		"H16 SET":                      attesttest.Forge(t, signer, head(with("typ", "secevent+jwt")), w.claims()),
		"H16 status list":              attesttest.Forge(t, signer, head(with("typ", "statuslist+jwt")), w.claims()),
		"H20 WIT":                      attesttest.Forge(t, signer, head(with("typ", "wit+jwt")), w.claims()),
		"H22 too large":                w.token(with("x", strings.Repeat("x", 1<<20))),
		"H22 nested":                   attesttest.Forge(t, signer, head(nil), fold(`"n":`+nested)),
		"H24 NUL in sub":               w.token(with("sub", "ann\x00")),
		"H24 bidi in jti":              w.token(with("jti", "lse_\u202e1")),
		"H24 newline in client_id":     w.token(with("client_id", "sbx\n1")),
		"A60 no sub":                   w.token(with("sub", nil)),
		"A60 no client_id":             w.token(with("client_id", nil)),
		"A60 no iat":                   w.token(with("iat", nil)),
		"A60 no jti":                   w.token(with("jti", nil)),
		"A58 no cnf":                   w.token(with("cnf", nil)),
		"A58 two cnf members":          w.token(with("cnf", map[string]any{"jkt": w.jkt, "x5t#S256": w.jkt})),
		"A58 cnf of another kind":      w.token(with("cnf", map[string]any{"jwk": attesttest.PublicJWK(t, w.key)})),
		"A58 cnf empty":                w.token(with("cnf", map[string]any{})),
		"A58 cnf is a string":          w.token(with("cnf", w.jkt)),
		"no task":                      w.token(with(issuer+verify.TaskClaim, nil)),
		"task of another issuer": w.token(func(c map[string]any) {
			delete(c, issuer+verify.TaskClaim)
			c["https://evil.test"+verify.TaskClaim] = "tsk_1"
		}),
		"scope array":              w.token(with("scope", []string{"orders:eu/42:read"})),
		"scope malformed":          w.token(with("scope", "orders:eu/42:read  orders:x:read")),
		"management token":         w.token(func(c map[string]any) { c["aud"], c["scope"] = issuer+"/v1", "operator" }),
		"A53 bound to another key": w.token(with("cnf", map[string]any{"jkt": thumb(t, mallory)})),
		"opaque":                   "abcdef",
	}
	for name, raw := range cases {
		if _, err := v.Verify(w.request(raw)); fault(err) != "401 invalid_token" && !(name == "H9 JWE" || strings.HasPrefix(name, "H10") || strings.HasPrefix(name, "H1 ")) {
			t.Errorf("%s: %s (%v)", name, fault(err), err)
		} else if f := fault(err); f != "401 invalid_token" && f != "400 invalid_request" {
			t.Errorf("%s: %s", name, f)
		} else if strings.Contains(fmt.Sprintf("%+v", err), raw) && len(raw) > 10 {
			t.Errorf("%s: the token is in the error", name)
		}
	}
	if _, err := v.Verify(w.request(w.token(nil))); err != nil {
		t.Errorf("the good one: %v", err)
	}
	if n := w.count("/.well-known/jwks.json"); n > 2 {
		t.Errorf("hostile tokens made %d fetches of the keys", n)
	}
}

// The OIDF negative list (standards.md section 4, end), each as one request.
func TestHostileProofs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	cfg := w.config()
	cfg.DPoPAlgs = []jose.Alg{jose.ES256, jose.EdDSA}
	now := w.now()
	// A server that has run for a while, so that its memory covers earlier
	// proofs.
	cfg.Replay = verify.NewReplay(0, func() time.Time { return now.Add(-time.Hour) })
	v := w.running(cfg)
	raw := w.token(nil)
	mallory := p256(t)
	jwk := attesttest.PublicJWK(t, w.key)
	n := 0
	head := func(name string, value any) map[string]any {
		h := map[string]any{"alg": "ES256", "typ": "dpop+jwt", "jwk": jwk}
		with(name, value)(h)
		return h
	}
	claims := func(name string, value any) map[string]any {
		n++
		c := map[string]any{"jti": fmt.Sprint("jti-", n), "htm": "GET", "htu": base + path, "iat": now.Unix(), "ath": dpop.AccessTokenHash(raw)}
		if name != "" {
			with(name, value)(c)
		}
		return c
	}
	private := maps.Clone(jwk)
	private["d"] = b64(make([]byte, 32))
	extra := maps.Clone(jwk)
	extra["kid"], extra["foo"] = "x", "bar"
	ok := attesttest.Forge(t, w.key, head("x", "extra"), claims("", nil))
	okParts := strings.Split(ok, ".")
	send := func(proofs ...string) error {
		r := w.request(raw)
		r.Header["Dpop"] = proofs
		_, err := v.Verify(r)
		return err
	}
	again := attesttest.Forge(t, w.key, head("", nil), claims("", nil))
	if err := send(again); err != nil {
		t.Fatal(err)
	}
	for name, proofs := range map[string][]string{
		"H26 two headers":               {attesttest.Forge(t, w.key, head("", nil), claims("", nil)), attesttest.Forge(t, w.key, head("", nil), claims("", nil))},
		"H26 two in one":                {ok + ", " + ok},
		"A34 not well-formed":           {"nope"},
		"A36 no typ":                    {attesttest.Forge(t, w.key, head("typ", nil), claims("", nil))},
		"A36 typ at+jwt":                {attesttest.Forge(t, w.key, head("typ", "at+jwt"), claims("", nil))},
		"A36 typ JWT":                   {attesttest.Forge(t, w.key, head("typ", "JWT"), claims("", nil))},
		"A37 no alg":                    {attesttest.Forge(t, w.key, head("alg", nil), claims("", nil))},
		"A37 RS256 not allowed":         {attesttest.Forge(t, w.key, head("alg", "RS256"), claims("", nil))},
		"H34 none":                      {b64([]byte(`{"alg":"none","typ":"dpop+jwt"}`)) + "." + okParts[1] + "."},
		"H34 HS256":                     {attesttest.Forge(t, w.key, head("alg", "HS256"), claims("", nil))},
		"no jwk":                        {attesttest.Forge(t, w.key, head("jwk", nil), claims("", nil))},
		"A35 no jti":                    {attesttest.Forge(t, w.key, head("", nil), claims("jti", nil))},
		"A35 no htm":                    {attesttest.Forge(t, w.key, head("", nil), claims("htm", nil))},
		"A35 no htu":                    {attesttest.Forge(t, w.key, head("", nil), claims("htu", nil))},
		"A35 no iat":                    {attesttest.Forge(t, w.key, head("", nil), claims("iat", nil))},
		"A52 no ath":                    {attesttest.Forge(t, w.key, head("", nil), claims("ath", nil))},
		"A52 wrong ath":                 {attesttest.Forge(t, w.key, head("", nil), claims("ath", dpop.AccessTokenHash("other")))},
		"H32 ath of another token":      {attesttest.Forge(t, w.key, head("", nil), claims("ath", dpop.AccessTokenHash(w.token(nil))))},
		"A38 bad signature":             {okParts[0] + "." + okParts[1] + "." + strings.Split(again, ".")[2]},
		"A39 private jwk":               {attesttest.Forge(t, w.key, head("jwk", private), claims("", nil))},
		"H33 symmetric jwk":             {attesttest.Forge(t, w.key, head("jwk", map[string]any{"kty": "oct", "k": "AAAA"}), claims("", nil))},
		"A40 wrong htm":                 {attesttest.Forge(t, w.key, head("", nil), claims("htm", "POST"))},
		"A40 htm in lower case":         {attesttest.Forge(t, w.key, head("", nil), claims("htm", "get"))},
		"A40 other path":                {attesttest.Forge(t, w.key, head("", nil), claims("htu", base+"/api/eu/43"))},
		"H29 other host":                {attesttest.Forge(t, w.key, head("", nil), claims("htu", "https://evil.test"+path))},
		"H29 other port":                {attesttest.Forge(t, w.key, head("", nil), claims("htu", base+":8443"+path))},
		"H29 other scheme":              {attesttest.Forge(t, w.key, head("", nil), claims("htu", "http://orders.test"+path))},
		"A42 an hour old":               {attesttest.Forge(t, w.key, head("", nil), claims("iat", now.Unix()-3600))},
		"A42 an hour ahead":             {attesttest.Forge(t, w.key, head("", nil), claims("iat", now.Unix()+3600))},
		"H27 replayed":                  {again},
		"H37 huge jti":                  {attesttest.Forge(t, w.key, head("", nil), claims("jti", strings.Repeat("j", 100<<10)))},
		"H25 no proof":                  nil,
		"H30 proof for the Host header": {attesttest.Forge(t, w.key, head("", nil), claims("htu", "https://spoofed.test"+path))},
	} {
		if err := send(proofs...); fault(err) != "401 invalid_dpop_proof" {
			t.Errorf("%s: %s (%v)", name, fault(err), err)
		}
	}
	if err := send(attesttest.Forge(t, mallory, map[string]any{"alg": "ES256", "typ": "dpop+jwt", "jwk": attesttest.PublicJWK(t, mallory)}, claims("", nil))); fault(err) != "401 invalid_token" {
		t.Errorf("A53 other key: %v", err)
	}
	for name, proof := range map[string]string{
		"extra members":        ok,
		"jwk with extras":      attesttest.Forge(t, w.key, head("jwk", extra), claims("", nil)),
		"extra claims":         attesttest.Forge(t, w.key, head("", nil), claims("foo", "bar")),
		"htu with query":       attesttest.Forge(t, w.key, head("", nil), claims("htu", base+path+"?q=1#f")),
		"upper-case host":      attesttest.Forge(t, w.key, head("", nil), claims("htu", "HTTPS://ORDERS.test"+path)),
		"default port":         attesttest.Forge(t, w.key, head("", nil), claims("htu", "https://orders.test:443"+path)),
		"ten seconds old":      attesttest.Forge(t, w.key, head("", nil), claims("iat", now.Unix()-10)),
		"eight seconds ahead":  attesttest.Forge(t, w.key, head("", nil), claims("iat", now.Unix()+8)),
		"and a good one again": attesttest.Forge(t, w.key, head("", nil), claims("", nil)),
	} {
		if err := send(proof); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Neither the Host header nor a forwarding header makes a proof valid.
func TestHostDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	v := w.running(w.config())
	raw := w.token(nil)
	for _, spoof := range []func(*http.Request){
		func(r *http.Request) { r.Host = "spoofed.test" },
		func(r *http.Request) { r.URL.Host, r.Host = "spoofed.test", "spoofed.test" },
		func(r *http.Request) { r.Header.Set("X-Forwarded-Host", "spoofed.test") },
		func(r *http.Request) { r.Header.Set("Forwarded", "host=spoofed.test;proto=https") },
	} {
		r := w.request(raw)
		spoof(r)
		if _, err := v.Verify(r); err != nil {
			t.Errorf("a good request was refused for its Host: %v", err)
		}
		r = w.request(raw)
		spoof(r)
		r.Header.Set("DPoP", w.proof("GET", "https://spoofed.test"+path, raw))
		if _, err := v.Verify(r); fault(err) != "401 invalid_dpop_proof" {
			t.Errorf("spoofed: %v", err)
		}
	}
}

func TestHowTheTokenComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	v := w.running(w.config())
	raw := w.token(nil)
	auth := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Authorization"] = values }
	}
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"good":                         {func(*http.Request) {}, "200"},
		"scheme in lower case":         {auth("dpop " + raw), "200"},
		"none":                         {func(r *http.Request) { r.Header.Del("Authorization") }, "401"},
		"A51, H38 Bearer":              {auth("Bearer " + raw), "401 invalid_token"},
		"H38 no proof + Bearer":        {func(r *http.Request) { auth("Bearer " + raw)(r); r.Header.Del("DPoP") }, "401 invalid_token"},
		"A56, H40 two headers":         {auth("DPoP "+raw, "Bearer "+raw), "400 invalid_request"},
		"H40 two of a kind":            {auth("DPoP "+raw, "DPoP "+raw), "400 invalid_request"},
		"two in one":                   {auth("DPoP " + raw + ", Bearer " + raw), "400 invalid_request"},
		"Basic":                        {auth("Basic dXNlcjpwYXNz"), "401"},
		"no token":                     {auth("DPoP"), "400 invalid_request"},
		"empty":                        {auth(""), "401"},
		"H10 space in token":           {auth("DPoP a b.c.d"), "400 invalid_request"},
		"H10 newline":                  {auth("DPoP " + raw + "\n"), "400 invalid_request"},
		"H10 question mark":            {auth("DPoP " + raw + "?"), "400 invalid_request"},
		"JSON serialisation":           {auth(`DPoP {"payload":"x","signature":"y"}`), "400 invalid_request"},
		"H38 in the query too":         {func(r *http.Request) { r.URL.RawQuery = "access_token=" + raw }, "400 invalid_request"},
		"H38 in the query, escaped":    {func(r *http.Request) { r.URL.RawQuery = "access%5Ftoken=" + raw }, "400 invalid_request"},
		"H38 in the query alone":       {func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "access_token=" + raw }, "400 invalid_request"},
		"A55, H39 Proxy-Authorization": {func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("Proxy-Authorization", "DPoP "+raw) }, "401"},
	} {
		r := w.request(raw)
		tc.change(r)
		if _, err := v.Verify(r); fault(err) != tc.want {
			t.Errorf("%s: %s (%v), want %s", name, fault(err), err, tc.want)
		}
	}
}
