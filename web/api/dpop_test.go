package api_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// proofWith forges a proof for the token endpoint from a good one.
func (b *box) proofWith(t testing.TB, head, body func(map[string]any)) string {
	t.Helper()
	h := map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": attesttest.PublicJWK(t, b.key)}
	c := b.r.proofClaims()
	if head != nil {
		head(h)
	}
	if body != nil {
		body(c)
	}
	return attesttest.Forge(t, b.key, h, c)
}

func (b *box) askWith(t testing.TB, proofs ...string) *answer {
	t.Helper()
	return b.r.post(t, tokenURL, b.exchange(canRead), func(req *http.Request) { req.Header["Dpop"] = proofs })
}

func put(name string, v any) func(map[string]any) { return func(m map[string]any) { m[name] = v } }
func drop(name string) func(map[string]any)       { return func(m map[string]any) { delete(m, name) } }

// A33 to A40, H25 to H37: one defect at a time; after all of them a valid proof
// still passes.
func TestRFC_A33_A34_A35_A36_A37_A38_A39_A40_BadProofs(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	good := func() string { return b.proofWith(t, nil, nil) }
	now := r.env.Clock.Now()
	private := attesttest.PublicJWK(t, b.key)
	private["d"] = base64.RawURLEncoding.EncodeToString(big.NewInt(1).Bytes())
	for name, proofs := range map[string][]string{
		"A33 two headers":         {good(), good()},
		"A33 H26 two in one":      {good() + ", " + good()},
		"A34 empty":               {""},
		"A34 garbage":             {"x"},
		"A34 two dots":            {"a.b"},
		"A34 four dots":           {good() + ".x.y"},
		"A34 JSON serialisation":  {`{"protected":"e30","payload":"e30","signature":"AA"}`},
		"A34 padding":             {good() + "="},
		"A34 blank":               {" " + good()},
		"A34 newline":             {good() + "\n"},
		"A34 duplicate member":    {attesttest.Forge(t, b.key, `{"typ":"dpop+jwt","alg":"ES256","alg":"ES256","jwk":`+detailsText(t, attesttest.PublicJWK(t, b.key))+`}`, detailsText(t, r.proofClaims()))},
		"A35 no jti":              {b.proofWith(t, nil, drop("jti"))},
		"A35 no htm":              {b.proofWith(t, nil, drop("htm"))},
		"A35 no htu":              {b.proofWith(t, nil, drop("htu"))},
		"A35 no iat":              {b.proofWith(t, nil, drop("iat"))},
		"A35 iat as text":         {b.proofWith(t, nil, put("iat", "1"))},
		"A36 typ at+jwt":          {b.proofWith(t, put("typ", "at+jwt"), nil)},
		"A36 typ JWT":             {b.proofWith(t, put("typ", "JWT"), nil)},
		"A36 no typ":              {b.proofWith(t, drop("typ"), nil)},
		"A37 none":                {b.proofWith(t, put("alg", "none"), nil)},
		"A37 H34 HS256":           {b.proofWith(t, put("alg", "HS256"), nil)},
		"A37 H34 not advertised":  {b.proofWith(t, put("alg", "ES384"), nil)},
		"A37 no alg":              {b.proofWith(t, drop("alg"), nil)},
		"A38 another key's":       {b.proofWith(t, put("jwk", attesttest.PublicJWK(t, brokertest.NewKey(t))), nil)},
		"A38 changed":             {changeOne(good())},
		"A38 no jwk":              {b.proofWith(t, drop("jwk"), nil)},
		"A39 private key":         {b.proofWith(t, put("jwk", private), nil)},
		"A39 symmetric key":       {b.proofWith(t, put("jwk", map[string]any{"kty": "oct", "k": "AAAA"}), nil)},
		"A40 htm post":            {b.proofWith(t, nil, put("htm", "post"))},
		"A40 htm GET":             {b.proofWith(t, nil, put("htm", "GET"))},
		"A40 another path":        {b.proofWith(t, nil, put("htu", brokertest.Issuer+"/oauth2/introspect"))},
		"A40 another host":        {b.proofWith(t, nil, put("htu", "https://evil.test"+tokenURL))},
		"A40 another port":        {b.proofWith(t, nil, put("htu", brokertest.Issuer+":8443"+tokenURL))},
		"A40 another scheme":      {b.proofWith(t, nil, put("htu", "http://ebb.test"+tokenURL))},
		"A40 escaped path":        {b.proofWith(t, nil, put("htu", brokertest.Issuer+"/oauth2/%74oken"))},
		"A42 an hour old":         {b.proofWith(t, nil, put("iat", now.Add(-time.Hour).Unix()))},
		"A42 an hour ahead":       {b.proofWith(t, nil, put("iat", now.Add(time.Hour).Unix()))},
		"A42 negative":            {b.proofWith(t, nil, put("iat", -1))},
		"A44 huge jti":            {b.proofWith(t, nil, put("jti", strings.Repeat("a", 5000)))},
		"A44 H37 100 kB jti":      {b.proofWith(t, nil, put("jti", strings.Repeat("a", 100<<10)))},
		"H16 an access token":     {b.token},
		"H16 a client assertion":  {r.env.Assertion(t, b.client, b.key)},
		"H8 crit":                 {b.proofWith(t, put("crit", []string{"x"}), nil)},
		"H8 b64":                  {b.proofWith(t, put("b64", false), nil)},
		"H6 jku":                  {b.proofWith(t, put("jku", "http://169.254.169.254/"), nil)},
		"H36 nonce with a quote":  {b.proofWith(t, nil, put("nonce", `a"b`))},
		"H36 nonce of wrong type": {b.proofWith(t, nil, put("nonce", 1))},
	} {
		b.askWith(t, proofs...).want(t, name, 400, "invalid_dpop_proof")
	}
	if a := b.askWith(t, good()); a.status != 200 {
		t.Errorf("a good proof after all that: %d %s", a.status, a.body)
	}
}

// changeOne flips a bit of the signature.
func changeOne(token string) string {
	i := strings.LastIndexByte(token, '.') + 10
	c := byte('A')
	if token[i] == c {
		c = 'B'
	}
	return token[:i] + string(c) + token[i+1:]
}

func TestRFC_A41_A42_A50_GoodProofs(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	r.env.Clock.Add(minute) // a broker that has just started does not know earlier proofs
	now := r.env.Clock.Now()
	for name, proof := range map[string]string{
		"A41 query":             b.proofWith(t, nil, put("htu", brokertest.Issuer+tokenURL+"?a=b")),
		"A41 fragment":          b.proofWith(t, nil, put("htu", brokertest.Issuer+tokenURL+"#x")),
		"A41 upper-case host":   b.proofWith(t, nil, put("htu", "HTTPS://EBB.TEST"+tokenURL)),
		"A41 default port":      b.proofWith(t, nil, put("htu", brokertest.Issuer+":443"+tokenURL)),
		"A42 10 s old":          b.proofWith(t, nil, put("iat", now.Add(-10*time.Second).Unix())),
		"A42 8 s ahead":         b.proofWith(t, nil, put("iat", now.Add(8*time.Second).Unix())),
		"A50 extra header":      b.proofWith(t, put("x-extra", 1), nil),
		"A50 extra claim":       b.proofWith(t, nil, put("extra", []int{1})),
		"a nonce nobody wanted": b.proofWith(t, nil, put("nonce", "abc")),
		"extra members of jwk": b.proofWith(t, func(h map[string]any) {
			maps.Copy(h["jwk"].(map[string]any), map[string]any{"x-y": 1, "alg": "ES256", "use": "sig"})
		}, nil),
	} {
		a := b.askWith(t, proof)
		if a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
			continue
		}
		if _, c := claims(t, a.text("access_token")); detailsText(t, c["cnf"]) != `{"jkt":"`+b.jkt+`"}` {
			t.Errorf("%s: A48, H33: cnf %v, want jkt %s", name, c["cnf"], b.jkt)
		}
	}
	// The name of the header is in any case (OIDF).
	req := r.request(http.MethodPost, tokenURL, strings.NewReader(b.exchange(canRead).Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("DPOP", b.proofWith(t, nil, nil))
	if a := r.do(t, req); a.status != 200 {
		t.Errorf("header name in capitals: %d %s", a.status, a.body)
	}
}

func TestEd25519(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for _, alg := range []string{"EdDSA", "Ed25519"} {
		key := newEd25519(t)
		opened := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks", withTicket())
		a := r.enroll(t, key, map[string]any{"ticket": opened.text("ticket")})
		if a.status != 200 {
			t.Fatalf("enrolling: %d %s", a.status, a.body)
		}
		b := &box{r: r, key: key, token: a.text("task_token")}
		proof := attesttest.Forge(t, key, map[string]any{"typ": "dpop+jwt", "alg": alg, "jwk": attesttest.PublicJWK(t, key)}, r.proofClaims())
		if a := b.askWith(t, proof); a.status != 200 {
			t.Errorf("alg %s (RFC 9864): %d %s", alg, a.status, a.body)
		}
	}
}

// TestWeakEd25519 enrols with a key of small order, for which R = identity and S = 0 is a signature of
// every message: no private key is needed. The token endpoint and client certificates refuse it as well.
//
//ebb:invariant I6 An Ed25519 key of small order or non-canonical encoding proves no possession in a JWK, a DPoP proof or a key set
//ebb:invariant I6 An Ed25519 key of small order or non-canonical encoding is refused in a client certificate
func TestWeakEd25519(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{mtls: true})
	weak := append(ed25519.PublicKey{1}, make([]byte, ed25519.PublicKeySize-1)...)
	forge := func(claims map[string]any) string {
		encode := base64.RawURLEncoding.EncodeToString
		head := map[string]any{"typ": "dpop+jwt", "alg": "EdDSA", "jwk": map[string]any{"kty": "OKP", "crv": "Ed25519", "x": encode(weak)}}
		return encode([]byte(detailsText(t, head))) + "." + encode([]byte(detailsText(t, claims))) + "." + encode(append([]byte{1}, make([]byte, ed25519.SignatureSize-1)...))
	}
	claims := r.proofClaims()
	ticket := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks", withTicket()).text("ticket")
	claims["htu"] = strings.Replace(claims["htu"].(string), tokenURL, "/v1/enroll", 1)
	body := strings.NewReader(detailsText(t, map[string]any{"ticket": ticket}))
	req := r.request(http.MethodPost, "/v1/enroll", body)
	req.Header.Set("Content-Type", "application/json")
	req.Header["Dpop"] = []string{forge(claims)}
	r.do(t, req).problem(t, "enrolment", 401, "invalid_dpop_proof")

	b := r.sandbox(t)
	b.askWith(t, forge(r.proofClaims())).want(t, "token", 400, "invalid_dpop_proof")

	// The issuer of a client certificate does not matter: only its key is
	// verified.
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, weak, newEd25519(t))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := r.post(t, tokenURL, r.client(t, brokertest.Operator, url.Values{"grant_type": {grantCredentials}}), overTLS(cert))
	a.want(t, "client certificate", 400, "invalid_request")
}

// A43, H27: a proof is accepted once, also as its ECDSA twin and at another
// replica.
func TestRFC_A43_H27_Replay(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	other := r.replica(t)
	b := r.sandbox(t)
	proof := b.proofWith(t, nil, nil)
	if a := b.askWith(t, proof); a.status != 200 {
		t.Fatalf("first use: %d %s", a.status, a.body)
	}
	b.askWith(t, proof).want(t, "second use", 400, "invalid_dpop_proof")
	b.askWith(t, twin(t, proof)).want(t, "its twin", 400, "invalid_dpop_proof")
	other.post(t, tokenURL, b.exchange(canRead), header("DPoP", proof)).want(t, "another replica", 400, "invalid_dpop_proof")
	calm := r.sandbox(t) // replays are violations, and policy denies tasks with violations
	if a := other.post(t, tokenURL, calm.exchange(canRead), calm.prove(t)); a.status != 200 {
		t.Errorf("a new proof at the other replica: %d %s", a.status, a.body)
	}
}

// One winner: many copies of one proof at once yield one token.
//
//ebb:invariant I10 Of concurrent or repeated claims of a single-use value, the live store grants one
func TestRFC_A43_ReplayRace(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	proof := b.proofWith(t, nil, nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	wins := 0
	for range 8 {
		wg.Go(func() {
			if a := b.askWith(t, proof); a.status == 200 {
				mu.Lock()
				wins++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if wins != 1 {
		t.Errorf("%d of 8 copies of one proof won, want 1", wins)
	}
}

// twin returns the same JWT with the other valid signature (r, n-s).
func twin(t testing.TB, token string) string {
	t.Helper()
	i := strings.LastIndexByte(token, '.')
	sig, err := base64.RawURLEncoding.DecodeString(token[i+1:])
	if err != nil {
		t.Fatal(err)
	}
	n := elliptic256()
	new(big.Int).Sub(n, new(big.Int).SetBytes(sig[32:])).FillBytes(sig[32:])
	return token[:i+1] + base64.RawURLEncoding.EncodeToString(sig)
}

func TestRFC_A45_A46_A47_H36_Nonces(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{broker: brokertest.Config{Nonces: true}})
	b := nonceSandbox(t, r)
	a := b.askWith(t, b.proofWith(t, nil, nil))
	a.want(t, "A45 no nonce", 400, "use_dpop_nonce")
	nonce := oneNonce(t, a)
	for name, bad := range map[string]string{"A46 wrong": "abc", "H36 of another server": nonce + "x", "truncated": nonce[1:]} {
		a := b.askWith(t, b.proofWith(t, nil, put("nonce", bad)))
		a.want(t, name, 400, "use_dpop_nonce")
		oneNonce(t, a)
	}
	good := b.askWith(t, b.proofWith(t, nil, put("nonce", nonce)))
	if good.status != 200 {
		t.Fatalf("the nonce offered: %d %s", good.status, good.body)
	}
	oneNonce(t, good)
	b.askWith(t, b.proofWith(t, nil, nil)).want(t, "A47 a proof without one afterwards", 400, "use_dpop_nonce")
	r.env.Clock.Add(11 * minute)
	stale := b.askWith(t, b.proofWith(t, nil, put("nonce", nonce)))
	stale.want(t, "A46 an old one", 400, "use_dpop_nonce")
	if oneNonce(t, stale) == nonce {
		t.Error("the nonce never changes")
	}
}

func oneNonce(t testing.TB, a *answer) string {
	t.Helper()
	v := a.header.Values("DPoP-Nonce")
	if len(v) != 1 || len(v[0]) < 22 {
		t.Fatalf("DPoP-Nonce %q, want exactly one of at least 128 bits", v)
	}
	if i := slices.IndexFunc([]byte(v[0]), func(c byte) bool { return c < 0x21 || c > 0x7e || c == '"' || c == '\\' }); i >= 0 {
		t.Fatalf("DPoP-Nonce %q has characters that are not NQCHAR", v)
	}
	return v[0]
}

// nonceSandbox enrols with nonces on: at /v1 the challenge is 401.
func nonceSandbox(t testing.TB, r *rig) *box {
	t.Helper()
	task, ticket, err := r.env.Broker.OpenTask(t.Context(), r.env.Principals[brokertest.Runner], withTicket())
	if err != nil {
		t.Fatal(err)
	}
	b := &box{r: r, key: brokertest.NewKey(t), task: task.ID}
	send := func(nonce string) *answer {
		p, err := dpop.NewProof(b.key, http.MethodPost, r.env.Issuer+"/v1/enroll", "", nonce, r.env.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		req := r.request(http.MethodPost, "/v1/enroll", encode(t, map[string]any{"ticket": ticket.Ticket.Reveal()}))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("DPoP", p)
		return r.do(t, req)
	}
	first := send("")
	first.problem(t, "enrolling without a nonce", 401, "use_dpop_nonce")
	if c := first.header.Get("WWW-Authenticate"); !strings.HasPrefix(c, "DPoP ") || !strings.Contains(c, `error="use_dpop_nonce"`) {
		t.Errorf("challenge %q", c)
	}
	second := send(oneNonce(t, first))
	if second.status != 200 {
		t.Fatalf("enrolling with the nonce: %d %s", second.status, second.body)
	}
	b.token, b.client = second.text("task_token"), second.text("client_id")
	return b
}

// H29, H30: Host and forwarding headers change nothing.
func TestHostDoesNotDecide(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	evil := b.proofWith(t, nil, put("htu", "https://evil.test"+tokenURL))
	for _, mod := range []func(*http.Request){
		func(req *http.Request) { req.Host = "evil.test" },
		header("X-Forwarded-Host", "evil.test"), header("Forwarded", "host=evil.test;proto=https"), header("X-Forwarded-Prefix", "/x"),
	} {
		r.post(t, tokenURL, b.exchange(canRead), header("DPoP", evil), mod).want(t, "H30 a proof for the spoofed host", 400, "invalid_dpop_proof")
		if a := r.post(t, tokenURL, b.exchange(canRead), header("DPoP", b.proofWith(t, nil, nil)), mod); a.status != 200 {
			t.Errorf("a good proof beside a spoofed host: %d %s", a.status, a.body)
		}
	}
}

func TestRFC_A48_TokenType(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	a := b.ask(t, canRead)
	_, c := claims(t, a.text("access_token"))
	if a.text("token_type") != "DPoP" || detailsText(t, c["cnf"]) != `{"jkt":"`+b.jkt+`"}` {
		t.Errorf("token_type %q, cnf %v", a.text("token_type"), c["cnf"])
	}
}

func elliptic256() *big.Int {
	n, _ := new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
	return n
}
