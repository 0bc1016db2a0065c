package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/jwt"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/mcp"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
	"github.com/ebb-broker/ebb/web/client"
)

const canary = "cAn4ry-stripe-secret-0123456789"

// fixture is an ebb behind its real handlers. Provider stripe issues
// placeholders, orders tokens that are bound to a key, mcp tokens for the
// server at listener.
type fixture struct {
	t        *testing.T
	env      *brokertest.Env
	issuer   string
	listener net.Listener // where an MCP server over HTTP listens
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	h := &fixture{t: t, listener: listen(t)}
	l := listen(t)
	h.issuer = "http://" + l.Addr().String()
	dir := filepath.Join(t.TempDir(), "keys")
	ring, err := keys.Open(keys.Config{Dir: dir, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	own, err := jwt.New(jwt.Config{Issuer: h.issuer, Keys: ring.Ring()})
	if err != nil {
		t.Fatal(err)
	}
	h.env = brokertest.New(t, brokertest.Config{
		Issuer: h.issuer, RealTime: true, Run: true, Egress: true, Keys: dir, Limits: broker.Limits{PollInterval: time.Second},
		Providers: map[string]broker.Provider{
			"stripe": {Driver: stripe(t), Kind: "static", Resource: "https://api.example.com/"},
			"mcp":    {Driver: own, Kind: "jwt", Resource: h.resource()},
		},
		People: []broker.Principal{{ID: "mcp-server", Roles: []broker.Role{broker.RoleResourceServer}, Audiences: []string{h.resource()}}},
	})
	mux, err := web.New(web.Config{PublicURL: h.issuer})
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(api.Config{Broker: h.env.Broker, Mux: mux})
	if err != nil {
		t.Fatal(err)
	}
	a.Register()
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}
	srv.Start()
	t.Cleanup(srv.Close)
	return h
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (h *fixture) resource() string { return "http://" + h.listener.Addr().String() + "/mcp" }

// stripe is a provider whose secret only egress adds.
func stripe(t *testing.T) provider.Driver {
	t.Helper()
	store := sqlstoretest.Open(t)
	secrets := secretstore.New(store, brokertest.Sealer(t, store, time.Now), nil)
	if err := secrets.Put(t.Context(), "stripe", secret.New(canary)); err != nil {
		t.Fatal(err)
	}
	d, err := static.New("stripe", static.Config{
		Secret: "stripe", Hosts: []string{"api.example.com"}, Inject: static.Place{Header: "Authorization", Prefix: "Bearer "},
		Grants: map[string]map[string]static.Rule{"charges": {
			"read": {Rule: stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/v1/**"}}}, "write": {Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/v1/charges"}}},
		}},
	}, secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// watched is a sandbox that remembers each secret that it received.
type watched struct {
	*client.Sandbox
	id      string
	key     jose.Signer
	mu      sync.Mutex
	secrets map[string]string
}

func (w *watched) Token(ctx context.Context, r client.TokenRequest) (client.Credential, error) {
	cred, err := w.Sandbox.Token(ctx, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !strings.HasPrefix(cred.Token.Reveal(), "ebb-placeholder.") {
		w.secrets["the credential for "+cred.Scope] = cred.Token.Reveal()
	}
	if p, is := errors.AsType[*client.Problem](err); is && p.Pending != nil && !p.Pending.Code.Empty() {
		w.secrets["a deferral code"] = p.Pending.Code.Reveal()
	}
	return cred, err
}

// task opens a task and enrols its sandbox.
func (h *fixture) task() (string, *watched) {
	h.t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("orders:eu/**:* stripe:**:* mcp:**:*")
	task, ticket, err := h.env.Broker.OpenTask(h.t.Context(), h.env.Principals[brokertest.Runner], spec)
	if err != nil {
		h.t.Fatal(err)
	}
	key := brokertest.NewKey(h.t)
	s, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: h.issuer}, Key: key})
	if err != nil {
		h.t.Fatal(err)
	}
	e, err := s.Enrol(h.t.Context(), ticket.Ticket)
	if err != nil {
		h.t.Fatal(err)
	}
	return task.ID, &watched{Sandbox: s, id: e.ClientID, key: key, secrets: map[string]string{"the ticket": ticket.Ticket.Reveal(), "the task token": e.TaskToken.Reveal(), "the upstream's secret": canary}}
}

// session is an MCP client of the official SDK, and all that it received.
type session struct {
	t    *testing.T
	s    *sdk.ClientSession
	w    *watched
	task string

	heard attesttest.Log
}

type closer struct {
	io.Writer
	io.Closer
}

// connect connects a client to a Service of a new task over a pair of streams.
func (h *fixture) connect(change ...func(*mcp.Config)) *session {
	h.t.Helper()
	task, w := h.task()
	c := mcp.Config{Sandbox: w, Version: "test"}
	for _, f := range change {
		f(&c)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	s := &session{t: h.t, w: w, task: task}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.New(ctx, c).Serve(ctx, in, closer{io.MultiWriter(out, &s.heard), out})
	}()
	var err error
	s.s, err = sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(h.t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = s.s.Close()
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
		s.clean()
	})
	return s
}

// clean looks for secrets and hidden characters in everything that was
// received.
func (s *session) clean() {
	s.t.Helper()
	said := s.heard.String()
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for what, secret := range s.w.secrets {
		if form := brokertest.Hides([]byte(said), secret); form != "" {
			s.t.Errorf("a client was told %s, as %s", what, form)
		}
	}
	agenttexttest.Clean(s.t, "what a client was told", strings.ReplaceAll(said, "\n", ""))
}

// answer is the decoded result of a tool.
type answer struct {
	failed bool
	text   string
	json   map[string]any
}

func (a answer) str(name string) string { s, _ := a.json[name].(string); return s }

func (s *session) call(tool string, args any) answer {
	s.t.Helper()
	a, err := s.try(tool, args)
	if err != nil {
		s.t.Fatalf("%s: %v", tool, err)
	}
	return a
}

func (s *session) try(tool string, args any) (a answer, err error) {
	r, err := s.s.CallTool(s.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return a, err
	}
	a.failed = r.IsError
	for _, c := range r.Content {
		if text, is := c.(*sdk.TextContent); is {
			a.text += text.Text
		}
	}
	return a, json.Unmarshal([]byte(a.text), &a.json)
}

// approve approves the only open request of a task.
func (h *fixture) approve(id string) {
	h.t.Helper()
	who := h.env.Principals[brokertest.Approver]
	r, err := h.env.Broker.Request(h.t.Context(), who, id)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.env.Broker.Decide(h.t.Context(), who, id, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true}); err != nil {
		h.t.Fatal(err)
	}
}

// tally counts the credentials and requests of all tasks in the database.
func (h *fixture) tally() (leases, requests int) {
	h.t.Helper()
	aud := h.env.Principals[brokertest.Auditor]
	ls, err := h.env.Broker.Leases(h.t.Context(), aud, broker.LeaseFilter{})
	if err != nil {
		h.t.Fatal(err)
	}
	rs, err := h.env.Broker.Requests(h.t.Context(), aud, broker.RequestFilter{})
	if err != nil {
		h.t.Fatal(err)
	}
	return len(ls), len(rs)
}
