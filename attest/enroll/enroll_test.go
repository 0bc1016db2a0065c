package enroll_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/enroll"
	"github.com/ebb-broker/ebb/attest/jose"
)

const issuer = "https://ebb.example"

// tickets is a store in memory: single use, expiry, and a switch to break it.
type tickets struct {
	clock *attesttest.Clock

	mu   sync.Mutex
	open map[string]ticket
	down error
}

type ticket struct {
	enroll.Ticket
	until time.Time
}

func (s *tickets) Redeem(ctx context.Context, hash, jkt string) (enroll.Ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return enroll.Ticket{}, s.down
	}
	got, found := s.open[hash]
	delete(s.open, hash)
	if !found || jkt == "" || !s.clock.Now().Before(got.until) {
		return enroll.Ticket{}, attest.Reject(attest.ReasonUsed, "the ticket is unknown, used or expired", nil)
	}
	return got.Ticket, nil
}

func (s *tickets) issue(task string) string {
	text, hash := enroll.NewTicket()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[hash] = ticket{enroll.Ticket{TaskID: task, SandboxID: "sbx_" + task}, s.clock.Now().Add(time.Minute)}
	return text
}

type fixture struct {
	clock   *attesttest.Clock
	store   *tickets
	signer  *ecdsa.PrivateKey
	key     attest.Key
	subject *enroll.Attestor
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	f := fixture{clock: attesttest.NewClock(), key: attesttest.NewKey(t)}
	f.store = &tickets{clock: f.clock, open: map[string]ticket{}}
	var err error
	if f.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	f.subject = f.new(t, f.keys(t))
	return f
}

func (f fixture) keys(t testing.TB) jose.KeySource {
	t.Helper()
	k, err := jose.NewKey("ebb-1", &f.signer.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	set, err := jose.NewKeySet(k)
	if err != nil {
		t.Fatal(err)
	}
	return set.Key
}

func (f fixture) new(t testing.TB, keys jose.KeySource) *enroll.Attestor {
	t.Helper()
	a, err := enroll.New(enroll.Config{Name: "enroll", Issuer: issuer, Tickets: f.store, Keys: keys, Now: f.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (f fixture) evidence(doc string) attest.Evidence {
	return attest.Evidence{Attestor: "enroll", Document: []byte(doc), Key: f.key}
}

func (f fixture) taskToken(t testing.TB) string {
	t.Helper()
	s, err := enroll.IssueTaskToken(f.signer, "ebb-1", enroll.TaskToken{Issuer: issuer, SandboxID: "sbx_1", TaskID: "tsk_1", JKT: f.key.JKT,
		IssuedAt: f.clock.Now(), ExpiresAt: f.clock.Now().Add(10 * time.Minute), ID: rand.Text()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// forged is a task token with changes, signed by ebb's key.
func (f fixture) forged(t testing.TB, header, claims attesttest.Claims) attest.Evidence {
	t.Helper()
	now := f.clock.Now()
	h := attesttest.Claims{"alg": "ES256", "typ": enroll.TaskTokenType, "kid": "ebb-1"}
	c := attesttest.Claims{"iss": issuer, "aud": issuer + "/task", "sub": "sbx_1", "task_id": "tsk_1", "iat": now.Unix(),
		"exp": now.Add(time.Minute).Unix(), "cnf": map[string]any{"jkt": f.key.JKT}}
	for _, m := range []struct{ to, from attesttest.Claims }{{h, header}, {c, claims}} {
		maps.Copy(m.to, m.from)
		maps.DeleteFunc(m.to, func(_ string, v any) bool { return v == nil })
	}
	return f.evidence(attesttest.Forge(t, f.signer, h, c))
}

// weakKeys are proofs of keys that enroll does not take.
func (f fixture) weakKeys(t *testing.T, doc func() string) map[string]func(*testing.T) attest.Evidence {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]func(*testing.T) attest.Evidence{}
	for name, key := range map[string]attest.Key{
		"no key":          {},
		"certificate":     {X5T: f.key.JKT},
		"jkt without key": {JKT: f.key.JKT},
		"RSA key":         {JKT: f.key.JKT, Public: &rsaKey.PublicKey},
		"P-384 key":       {JKT: f.key.JKT, Public: &p384.PublicKey},
		"private key":     {JKT: f.key.JKT, Public: rsaKey},
	} {
		out[name] = func(*testing.T) attest.Evidence {
			e := f.evidence(doc())
			e.Key = key
			return e
		}
	}
	return out
}

func TestTicketSuite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	issue := func() string { return f.store.issue("tsk_1") }
	bad := f.weakKeys(t, issue)
	bad["expired"] = func(*testing.T) attest.Evidence {
		text, hash := enroll.NewTicket()
		f.store.mu.Lock()
		defer f.store.mu.Unlock()
		f.store.open[hash] = ticket{enroll.Ticket{TaskID: "t", SandboxID: "s"}, f.clock.Now()}
		return f.evidence(text)
	}
	bad["unknown"] = func(*testing.T) attest.Evidence {
		text, _ := enroll.NewTicket()
		return f.evidence(text)
	}
	bad["hash instead of ticket"] = func(*testing.T) attest.Evidence {
		return f.evidence(enroll.TicketPrefix + enroll.TicketHash(issue()))
	}
	attesttest.Run(t, attesttest.Suite{
		Attestor: f.subject, Clock: f.clock, Consumes: true, Bad: bad,
		Good: func(*testing.T) attest.Evidence { return f.evidence(issue()) },
		NotApplicable: map[string]string{
			"wrong audience": "a ticket says nothing", "wrong issuer": "a ticket says nothing",
			"wrong key": "a ticket binds to the key that redeems it", "not yet valid": "a ticket is valid from its making",
		},
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			g := newFixture(t)
			e := g.evidence(g.store.issue("tsk_1"))
			g.store.down = errors.New("live store unreachable")
			return g.subject, e
		},
		Lures: func(_ *testing.T, url string) []attest.Evidence {
			return []attest.Evidence{f.evidence(url), f.evidence(enroll.TicketPrefix + url)}
		},
	})
}

func TestTaskTokenSuite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.clock.Now()
	claims := func(c attesttest.Claims) func(*testing.T) attest.Evidence {
		return func(t *testing.T) attest.Evidence { return f.forged(t, nil, c) }
	}
	header := func(h attesttest.Claims) func(*testing.T) attest.Evidence {
		return func(t *testing.T) attest.Evidence { return f.forged(t, h, nil) }
	}
	token := f.taskToken(t)
	bad := f.weakKeys(t, func() string { return token })
	maps.Copy(bad, map[string]func(*testing.T) attest.Evidence{
		"wrong audience":     claims(attesttest.Claims{"aud": issuer}),
		"two audiences":      claims(attesttest.Claims{"aud": []string{issuer + "/task", issuer}}),
		"wrong issuer":       claims(attesttest.Claims{"iss": issuer + "/"}),
		"expired":            claims(attesttest.Claims{"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(-time.Second).Unix()}),
		"no expiry":          claims(attesttest.Claims{"exp": nil}),
		"not yet valid":      claims(attesttest.Claims{"nbf": now.Add(time.Second).Unix()}),
		"ten years":          claims(attesttest.Claims{"exp": now.AddDate(10, 0, 0).Unix()}),
		"no task":            claims(attesttest.Claims{"task_id": nil}),
		"empty task":         claims(attesttest.Claims{"task_id": ""}),
		"H24 task with bidi": claims(attesttest.Claims{"task_id": "t\u202e"}),
		"task number":        claims(attesttest.Claims{"task_id": 1}),
		"no sandbox":         claims(attesttest.Claims{"sub": nil}),
		"no cnf":             claims(attesttest.Claims{"cnf": nil}),
		"cnf certificate":    claims(attesttest.Claims{"cnf": map[string]any{"x5t#S256": f.key.JKT}}),
		"cnf both":           claims(attesttest.Claims{"cnf": map[string]any{"jkt": f.key.JKT, "x5t#S256": f.key.JKT}}),
		"H16 at+jwt":         header(attesttest.Claims{"typ": "at+jwt"}),
		"H16 JWT":            header(attesttest.Claims{"typ": "JWT"}),
		"H16 no typ":         header(attesttest.Claims{"typ": nil}),
		"H16 access token as is": func(t *testing.T) attest.Evidence {
			return f.forged(t, attesttest.Claims{"typ": "at+jwt"}, attesttest.Claims{"aud": "https://api.example"})
		},
		"unknown kid": header(attesttest.Claims{"kid": "other"}),
		"wrong key": func(t *testing.T) attest.Evidence {
			e := f.evidence(token)
			e.Key = attesttest.NewKey(t)
			return e
		},
		"foreign signature": func(t *testing.T) attest.Evidence {
			g := f
			g.signer = newFixture(t).signer
			return g.forged(t, nil, nil)
		},
	})
	attesttest.Run(t, attesttest.Suite{
		Attestor: f.subject, Clock: f.clock, Bad: bad,
		Good: func(t *testing.T) attest.Evidence { return f.evidence(f.taskToken(t)) },
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			down := func(jose.Header) (jose.Key, error) { return jose.Key{}, errors.New("keys not loaded") }
			return f.new(t, down), f.evidence(f.taskToken(t))
		},
		Lures: func(t *testing.T, url string) []attest.Evidence {
			return []attest.Evidence{header(attesttest.Claims{"jku": url})(t), claims(attesttest.Claims{"iss": url})(t), claims(attesttest.Claims{"task_id": url})(t)}
		},
	})
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	byTicket, err := f.subject.Attest(t.Context(), f.evidence(f.store.issue("tsk_1")))
	if err != nil {
		t.Fatal(err)
	}
	if byTicket.TaskID != "tsk_1" || byTicket.Subject != "sbx_tsk_1" || byTicket.Key != f.key.JKT || byTicket.Class != attest.ClassTicket || byTicket.ReplayID != "" || !byTicket.NotAfter.IsZero() {
		t.Errorf("ticket: got %+v", byTicket)
	}
	byToken, err := f.subject.Attest(t.Context(), f.evidence(f.taskToken(t)))
	if err != nil {
		t.Fatal(err)
	}
	if byToken.TaskID != "tsk_1" || byToken.Subject != "sbx_1" || byToken.Key != f.key.JKT || !byToken.NotAfter.Equal(f.clock.Now().Add(10*time.Minute)) || byToken.Selectors["task_id"] != "tsk_1" {
		t.Errorf("task token: got %+v", byToken)
	}
}

// TestBrokenPipeline: a pipeline that passes a key under another thumbprint is defective. The
// error is not a rejection, and no identity is returned.
func TestBrokenPipeline(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.evidence(f.taskToken(t))
	e.Key.Public = attesttest.NewKey(t).Public
	if id, err := f.subject.Attest(t.Context(), e); err == nil || errors.Is(err, attest.ErrRejected) {
		t.Errorf("got %+v, %v", id, err)
	}
}

// TestEmptyTicket: a store that returns no task must not cause an identity without one.
func TestEmptyTicket(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	text, hash := enroll.NewTicket()
	f.store.open[hash] = ticket{enroll.Ticket{}, f.clock.Now().Add(time.Minute)}
	if id, err := f.subject.Attest(t.Context(), f.evidence(text)); err == nil || errors.Is(err, attest.ErrRejected) {
		t.Errorf("got %+v, %v", id, err)
	}
}

func TestNewTicket(t *testing.T) {
	t.Parallel()
	a, hashA := enroll.NewTicket()
	b, hashB := enroll.NewTicket()
	if a == b || hashA == hashB || !strings.HasPrefix(a, "ebb_tkt_") || len(a) != 51 || enroll.TicketHash(a) != hashA || strings.Contains(a, hashA) {
		t.Errorf("got %d bytes of ticket, %s and %s", len(a), hashA, hashB)
	}
}

func TestIssueRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good := enroll.TaskToken{Issuer: issuer, SandboxID: "s", TaskID: "t", JKT: f.key.JKT, IssuedAt: f.clock.Now(), ExpiresAt: f.clock.Now().Add(time.Minute)}
	for name, change := range map[string]func(*enroll.TaskToken){
		"issuer": func(t *enroll.TaskToken) { t.Issuer = "" }, "sandbox": func(t *enroll.TaskToken) { t.SandboxID = "" },
		"task": func(t *enroll.TaskToken) { t.TaskID = "" }, "key": func(t *enroll.TaskToken) { t.JKT = "" },
		"issued at": func(t *enroll.TaskToken) { t.IssuedAt = time.Time{} }, "expiry": func(t *enroll.TaskToken) { t.ExpiresAt = t.IssuedAt },
	} {
		tt := good
		change(&tt)
		if s, err := enroll.IssueTaskToken(f.signer, "k", tt); s != "" || err == nil {
			t.Errorf("%s: got %q, %v", name, s, err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	good := enroll.Config{Name: "enroll", Issuer: issuer, Tickets: f.store, Keys: f.keys(t)}
	for name, change := range map[string]func(*enroll.Config){
		"name": func(c *enroll.Config) { c.Name = "" }, "issuer": func(c *enroll.Config) { c.Issuer = "" },
		"tickets": func(c *enroll.Config) { c.Tickets = nil }, "keys": func(c *enroll.Config) { c.Keys = nil },
		"leeway": func(c *enroll.Config) { c.Leeway = time.Hour }, "lifetime": func(c *enroll.Config) { c.MaxLifetime = -1 },
	} {
		c := good
		change(&c)
		if a, err := enroll.New(c); a != nil || err == nil {
			t.Errorf("%s: got %v, %v", name, a, err)
		}
	}
	for raw, ok := range map[string]bool{"": true, "{}": true, `{"a":1}`: false, "[]": false, `"x"`: false} {
		if _, err := enroll.Decode([]byte(raw)); (err == nil) != ok {
			t.Errorf("Decode(%q): got %v", raw, err)
		}
	}
}

// FuzzAttest: Attest rejects an arbitrary document; it does not panic, and returns no other kind
// of error.
func FuzzAttest(f *testing.F) {
	fix := newFixture(f)
	f.Add([]byte(fix.taskToken(f)[1:]))
	text, _ := enroll.NewTicket()
	f.Add([]byte(text))
	f.Add([]byte("e30.e30.AA"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if id, err := fix.subject.Attest(t.Context(), fix.evidence(string(doc))); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %+v, %v", id, err)
		}
	})
}
