package ask_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// sandbox responds with the result of a function.
type sandbox func(client.TokenRequest) (client.Credential, error)

func (s sandbox) Token(_ context.Context, r client.TokenRequest) (client.Credential, error) {
	return s(r)
}

func (s sandbox) Credentials(context.Context) ([]wire.OwnCredential, error) {
	return []wire.OwnCredential{{LeaseID: "lse_1", State: wire.LeaseLive}}, nil
}

func (s sandbox) RevokeLease(_ context.Context, id string) error {
	if id != "lse_1" {
		return &client.Problem{Status: 400, Kind: wire.KindInvalid}
	}
	return nil
}

func serve(t *testing.T, c ask.Config) (*ask.Client, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ask.Serve(ctx, l, c) }()
	t.Cleanup(func() { cancel(); <-ended })
	return ask.NewClient(socket), socket
}

func TestAsk(t *testing.T) {
	t.Parallel()
	set := "a:b:read a:c:write"
	want := client.Credential{
		Token: secret.New("ebb-placeholder.lse_1"), Type: "Bearer", Format: "f", ExpiresAt: time.Unix(1790000000, 0).UTC(), Scope: set, Resource: "https://a", LeaseID: "lse_1", Class: wire.ClassInstant,
		Endpoint: &wire.Endpoint{Protocol: provider.PostgreSQL, Host: "db.example.com:5432", Database: "orders"},
	}
	asked := make(chan client.TokenRequest, 1)
	c, _ := serve(t, ask.Config{
		Tool: "git", Asked: func(r client.TokenRequest, _ client.Pending) { asked <- r },
		Sandbox: sandbox(func(r client.TokenRequest) (client.Credential, error) {
			if r.Scope != set || r.Tool != "git" || r.TTL != 90*time.Second || r.Reason != "because" || !r.Wait || r.Resource != "https://a" || r.PublicKey != "key" || r.Delivery != "egress" {
				t.Errorf("asked %+v", r)
			}
			r.Pending(client.Pending{})
			return want, nil
		}),
		Prove: func(method, url, token string) (string, error) { return method + url + token, nil },
	})
	// The run's tool replaces the tool of a request.
	got, err := c.Token(t.Context(), client.TokenRequest{Scope: set, Tool: "other", TTL: 90 * time.Second, Reason: "because", Wait: true, Resource: "https://a", PublicKey: "key", Delivery: "egress"})
	if err != nil || !got.Token.Equal(want.Token) {
		t.Fatalf("%+v, %v", got, err)
	}
	got.Token = want.Token
	if a, b := tell(got), tell(want); a != b {
		t.Errorf("got %s, want %s", a, b)
	}
	if r := <-asked; r.Scope != set {
		t.Errorf("a person was asked about %s", r.Scope)
	}
	if proof, err := c.Prove(t.Context(), "GET", "https://a/x", want.Token); err != nil || proof != "GEThttps://a/xebb-placeholder.lse_1" {
		t.Errorf("%q, %v", proof, err)
	}
}

// A request that waits for an approval is reported to the runner and the client
// before it is decided, and a denial has ebb's own text.
func TestAskTellsWhoDecides(t *testing.T) {
	t.Parallel()
	denied := false
	c, _ := serve(t, ask.Config{Sandbox: sandbox(func(r client.TokenRequest) (client.Credential, error) {
		r.Pending(client.Pending{Code: secret.New("code-for-the-key-alone"), RequestID: "req_1", Page: "https://ebb.test/requests/req_1", ExpiresIn: time.Minute, Groups: []string{"ops"}})
		if denied {
			return client.Credential{}, &client.Problem{Status: 400, Kind: wire.KindDenied, Detail: "Somebody said no."}
		}
		return client.Credential{Token: secret.New("t"), LeaseID: "lse_1"}, nil
	})})
	var told []client.Pending
	r := client.TokenRequest{Scope: "a:b:write", Wait: true, Pending: func(p client.Pending) { told = append(told, p) }}
	got, err := c.Token(t.Context(), r)
	if err != nil || got.LeaseID != "lse_1" || len(told) != 1 || told[0].RequestID != "req_1" || told[0].Page == "" || told[0].ExpiresIn != time.Minute || len(told[0].Groups) != 1 || !told[0].Code.Empty() {
		t.Errorf("%+v, %v, told %+v", got, err, told)
	}
	denied = true
	if _, err = c.Token(t.Context(), r); !client.IsKind(err, wire.KindDenied) || !strings.Contains(err.Error(), "Somebody said no.") {
		t.Errorf("%v", err)
	}
}

// A sandbox can list and revoke its credentials, and complete its task if the
// runner allows it.
func TestAskForTheEnd(t *testing.T) {
	t.Parallel()
	config := ask.Config{Sandbox: sandbox(nil)}
	c, _ := serve(t, config)
	list, err := c.Credentials(t.Context())
	if err != nil || len(list) != 1 || list[0].LeaseID != "lse_1" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := c.RevokeLease(t.Context(), "lse_1"); err != nil {
		t.Error(err)
	}
	if err := c.RevokeLease(t.Context(), "lse_2"); !client.IsKind(err, wire.KindInvalid) {
		t.Errorf("%v", err)
	}
	if _, err := c.Complete(t.Context()); !client.IsKind(err, wire.KindForbidden) {
		t.Errorf("the runner did not allow it: %v", err)
	}
	config.Complete = func(context.Context) (ask.Completed, error) {
		return ask.Completed{Revoked: 2, PendingRevocations: 1}, nil
	}
	c, _ = serve(t, config)
	if done, err := c.Complete(t.Context()); err != nil || done != (ask.Completed{Revoked: 2, PendingRevocations: 1}) {
		t.Errorf("%+v, %v", done, err)
	}
}

func tell(c client.Credential) string {
	text, _ := json.Marshal([]any{c.Type, c.Format, c.ExpiresAt, c.Scope, c.Resource, c.LeaseID, c.Class, c.Endpoint})
	return string(text)
}

// A sandbox cannot have its own key certified if the runner keeps the keys.
func TestAskForAKey(t *testing.T) {
	t.Parallel()
	given := sandbox(func(client.TokenRequest) (client.Credential, error) {
		return client.Credential{Token: secret.New("t"), LeaseID: "lse_1"}, nil
	})
	r := client.TokenRequest{Scope: "ssh:web/deploy:login", PublicKey: "ssh-ed25519 AAAA"}
	for _, keyless := range []bool{true, false} {
		c, _ := serve(t, ask.Config{Sandbox: given, Keyless: keyless})
		if _, err := c.Token(t.Context(), r); client.IsKind(err, wire.KindForbidden) != keyless {
			t.Errorf("%v: %v", keyless, err)
		}
	}
}

// TestRefusals: the sandbox gets ebb's own error text, and no information about
// the runner's machine.
func TestRefusals(t *testing.T) {
	t.Parallel()
	said := error(&client.Problem{Status: 403, Kind: wire.KindDenied, Detail: "Policy says no.", RetryAfter: 1500 * time.Millisecond, Instance: "req-1"})
	c, socket := serve(t, ask.Config{Sandbox: sandbox(func(client.TokenRequest) (client.Credential, error) { return client.Credential{}, said })})
	_, err := c.Token(t.Context(), client.TokenRequest{Scope: "a:b:read"})
	if p, is := errors.AsType[*client.Problem](err); !is || p.Kind != wire.KindDenied || p.Detail != "Policy says no." || p.Status != 403 || p.RetryAfter != 2*time.Second {
		t.Errorf("%+v", err)
	}
	said = errors.New("dial tcp 192.0.2.7:8420: /home/ann/secret")
	_, err = c.Token(t.Context(), client.TokenRequest{Scope: "a:b:read"})
	if p, is := errors.AsType[*client.Problem](err); !is || p.Kind != wire.KindUnavailable || strings.Contains(err.Error(), "192.0.2.7") {
		t.Errorf("%v", err)
	}
	raw := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for body, want := range map[string]int{
		`{"scope":"a:b:read"}`: 503, `{"scope":"a:b:read","tsk":"x"}`: 400, `{"scope":"a:b:read"} {}`: 400, `[]`: 400, ``: 400, `{"scope":"not one"}`: 400,
		`{"scope":"a:b:read","reason":"` + strings.Repeat("x", 70<<10) + `"}`: 400,
	} {
		resp, err := raw.Post("http://runner/token", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%.60s: %d, want %d", body, resp.StatusCode, want)
		}
	}
	resp, err := raw.Get("http://runner/token")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", resp.StatusCode)
	}
}

// TestConnections: the number of connections is limited, and the next is served
// when one has closed. An idle connection is closed.
//
//ebb:invariant I12 The number of connections of a sandbox to its runner is limited
func TestConnections(t *testing.T) {
	t.Parallel()
	c, socket := serve(t, ask.Config{
		Sandbox: sandbox(func(client.TokenRequest) (client.Credential, error) { return client.Credential{}, nil }),
		Prove:   func(string, string, string) (string, error) { return "proof", nil },
	})
	var held []net.Conn
	for range 64 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// The first response makes sure that the connection is counted
		if _, err := io.WriteString(conn, "GET /token HTTP/1.1\r\nHost: runner\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 12)); err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := c.Prove(t.Context(), "GET", "https://a/x", secret.New("t"))
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a connection too many is answered: %v", err)
	case <-time.After(200 * time.Millisecond): // never a reason to fail on a slow machine
	}
	_ = held[0].Close()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
