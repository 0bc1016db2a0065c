package walktest

import (
	"crypto/rand"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// ebb is a whole ebb with its real handlers. Its clock is the machine's, and
// tests can move it forward.
type ebb struct {
	env  *brokertest.Env
	url  string
	kind Kind
}

func start(t *testing.T, kind Kind) *ebb {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	nonces, err := attest.NewNonces(key)
	if err != nil {
		t.Fatal(err)
	}
	clock := brokertest.RealClock(0)
	e := &ebb{kind: kind}
	e.env = brokertest.New(t, brokertest.Config{Issuer: Issuer, Words: provider.Words{Reversible: []string{"write"}}, Clock: clock, Attestors: map[string]attest.Attestor{kind.Name: kind.Open(t, nonces, clock.Now)}})
	mux, err := web.New(web.Config{PublicURL: Issuer, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(api.Config{Broker: e.env.Broker, Mux: mux, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	a.Register()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	e.url = srv.URL
	return e
}

func (e *ebb) client() client.Config {
	return client.Config{Issuer: Issuer, URL: e.url, Now: e.env.Clock.Now}
}

// open opens a task for a sandbox, as its runner.
func (e *ebb) open(t *testing.T, s Sandbox) string {
	t.Helper()
	o, err := client.NewOperator(client.OperatorConfig{Config: e.client(), ClientID: brokertest.Runner, Key: e.env.Keys[brokertest.Runner]})
	if err != nil {
		t.Fatal(err)
	}
	// The task of brokertest.Spec, for a sandbox of this kind.
	core := brokertest.Spec()
	spec := wire.TaskSpec{
		Name: core.Name, Kind: core.Kind, Owner: core.Owner, Labels: core.Labels, TTL: int64(core.TTL), Ceiling: core.Ceiling.String(),
		Heartbeat: int64(core.Heartbeat), Expect: wire.Expect{Attestor: e.kind.Name, Selectors: s.Selectors},
	}
	task, _, err := o.Tasks.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return task.ID
}

// caller is a client with one key in a sandbox.
type caller struct {
	*client.Sandbox
	in  Sandbox
	key jose.Signer
	jkt string
}

// caller returns a client with a new key.
func (e *ebb) caller(t *testing.T, in Sandbox) *caller {
	t.Helper()
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		t.Fatal(err)
	}
	return e.known(t, in, key)
}

func (e *ebb) known(t *testing.T, in Sandbox, key jose.Signer) *caller {
	t.Helper()
	c := &caller{in: in, key: key}
	var err error
	if c.jkt, err = jose.Thumbprint(key.Public()); err != nil {
		t.Fatal(err)
	}
	if c.Sandbox, err = client.NewSandbox(client.SandboxConfig{Config: e.client(), Key: key}); err != nil {
		t.Fatal(err)
	}
	return c
}

// evidence gets a challenge for a task and returns the evidence that answers
// it.
func (c *caller) evidence(t *testing.T, task string) string {
	t.Helper()
	got, err := c.Challenge(t.Context(), task, "", c.in.Show)
	if err != nil {
		t.Fatal(err)
	}
	return c.in.Answer(t, c.jkt, attest.Challenge{Nonce: got.Nonce, Document: got.Document, ExpiresAt: got.ExpiresAt})
}

// enrols presents evidence for a task and gets a credential with the resulting
// task token.
func (c *caller) enrols(t *testing.T, task, evidence string) client.Enrolment {
	t.Helper()
	who, err := c.EnrolEvidence(t.Context(), task, "", evidence)
	if err != nil || who.TaskID != task {
		t.Fatalf("enrolling: %+v, %v", who, err)
	}
	got, err := c.Token(t.Context(), client.TokenRequest{Scope: "orders:eu/42:read", Resource: brokertest.Orders, TTL: time.Minute})
	if err != nil || got.LeaseID == "" {
		t.Fatalf("a token: %v", err)
	}
	return who
}

// refused presents evidence that ebb must reject.
func (c *caller) refused(t *testing.T, what, task, evidence string) {
	t.Helper()
	if who, err := c.EnrolEvidence(t.Context(), task, "", evidence); !client.IsKind(err, wire.KindInvalidEvidence) {
		t.Errorf("%s: got %+v, %v", what, who, err)
	}
	if _, err := c.Token(t.Context(), client.TokenRequest{Scope: "orders:eu/42:read", Resource: brokertest.Orders}); err == nil {
		t.Errorf("%s: there is a token", what)
	}
}
