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

	"ebb/broker"
	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/cmd/ebb/internal/ask"
	"ebb/scopes"
	"ebb/web/client"
)

// sandbox answers as a function says.
type sandbox func(client.TokenRequest) (client.Credential, error)

func (s sandbox) Token(_ context.Context, r client.TokenRequest) (client.Credential, error) {
	return s(r)
}

func (s sandbox) Credentials(context.Context) ([]client.Given, error) {
	return []client.Given{{LeaseID: "lse_1", State: broker.LeaseLive}}, nil
}

func (s sandbox) RevokeLease(_ context.Context, id string) error {
	if id != "lse_1" {
		return &client.Problem{Status: 400, Kind: broker.Invalid}
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
	set := scopes.MustParseSet("a:b:read a:c:write")
	want := client.Credential{
		Token: provider.NewSecret("ebb-placeholder.lse_1"), Type: "Bearer", Format: "f", ExpiresAt: time.Unix(1790000000, 0).UTC(), Scope: set, Resource: "https://a", LeaseID: "lse_1", Class: provider.ClassInstant,
		Endpoint: &provider.Endpoint{Protocol: provider.PostgreSQL, Host: exact.Host{Name: "db.example.com", Port: 5432}, Database: "orders"},
	}
	asked := make(chan client.TokenRequest, 1)
	c, _ := serve(t, ask.Config{
		Tool: "git", Asked: func(r client.TokenRequest) { asked <- r },
		Sandbox: sandbox(func(r client.TokenRequest) (client.Credential, error) {
			if r.Scope.String() != set.String() || r.Tool != "git" || r.TTL != 90*time.Second || r.Reason != "because" || !r.Wait || r.Resource != "https://a" || r.PublicKey != "key" || r.Delivery != "egress" {
				t.Errorf("asked %+v", r)
			}
			r.Pending(client.Pending{})
			return want, nil
		}),
		Prove: func(method, url, token string) (string, error) { return method + url + token, nil },
	})
	// The tool is the box's, whatever the box says.
	got, err := c.Token(t.Context(), client.TokenRequest{Scope: set, Tool: "other", TTL: 90 * time.Second, Reason: "because", Wait: true, Resource: "https://a", PublicKey: "key", Delivery: "egress"})
	if err != nil || !got.Token.Equal(want.Token) {
		t.Fatalf("%+v, %v", got, err)
	}
	got.Token = want.Token
	if a, b := tell(got), tell(want); a != b {
		t.Errorf("got %s, want %s", a, b)
	}
	if r := <-asked; r.Scope.String() != set.String() {
		t.Errorf("a person was asked about %s", r.Scope)
	}
	if proof, err := c.Prove(t.Context(), "GET", "https://a/x", want.Token); err != nil || proof != "GEThttps://a/xebb-placeholder.lse_1" {
		t.Errorf("%q, %v", proof, err)
	}
}

// What waits for a person says so before it is answered, in the runner and in the box, and
// is refused in ebb's own words like any other.
func TestAskTellsWhoDecides(t *testing.T) {
	t.Parallel()
	denied := false
	c, _ := serve(t, ask.Config{Sandbox: sandbox(func(r client.TokenRequest) (client.Credential, error) {
		r.Pending(client.Pending{Code: provider.NewSecret("code-for-the-key-alone"), RequestID: "req_1", Page: "https://ebb.test/requests/req_1", ExpiresIn: time.Minute})
		if denied {
			return client.Credential{}, &client.Problem{Status: 400, Kind: broker.Denied, Detail: "Somebody said no."}
		}
		return client.Credential{Token: provider.NewSecret("t"), LeaseID: "lse_1"}, nil
	})})
	var told []client.Pending
	r := client.TokenRequest{Scope: scopes.MustParseSet("a:b:write"), Wait: true, Pending: func(p client.Pending) { told = append(told, p) }}
	got, err := c.Token(t.Context(), r)
	if err != nil || got.LeaseID != "lse_1" || len(told) != 1 || told[0].RequestID != "req_1" || told[0].Page == "" || told[0].ExpiresIn != time.Minute || !told[0].Code.Empty() {
		t.Errorf("%+v, %v, told %+v", got, err, told)
	}
	denied = true
	if _, err = c.Token(t.Context(), r); !client.IsKind(err, broker.Denied) || !strings.Contains(err.Error(), "Somebody said no.") {
		t.Errorf("%v", err)
	}
}

// A box sees and gives back what it has, and ends its task where the runner lets it.
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
	if err := c.RevokeLease(t.Context(), "lse_2"); !client.IsKind(err, broker.Invalid) {
		t.Errorf("%v", err)
	}
	if _, err := c.Complete(t.Context()); !client.IsKind(err, broker.Forbidden) {
		t.Errorf("the runner did not allow it: %v", err)
	}
	config.Complete = func(context.Context) (ask.Completed, error) { return ask.Completed{Revoked: 2, Owed: 1}, nil }
	c, _ = serve(t, config)
	if done, err := c.Complete(t.Context()); err != nil || done != (ask.Completed{Revoked: 2, Owed: 1}) {
		t.Errorf("%+v, %v", done, err)
	}
}

func tell(c client.Credential) string {
	text, _ := json.Marshal([]any{c.Type, c.Format, c.ExpiresAt, c.Scope, c.Resource, c.LeaseID, c.Class, c.Endpoint})
	return string(text)
}

// A box has no key of its own certified where the runner keeps the keys.
func TestAskForAKey(t *testing.T) {
	t.Parallel()
	given := sandbox(func(client.TokenRequest) (client.Credential, error) {
		return client.Credential{Token: provider.NewSecret("t"), LeaseID: "lse_1"}, nil
	})
	r := client.TokenRequest{Scope: scopes.MustParseSet("ssh:web/deploy:login"), PublicKey: "ssh-ed25519 AAAA"}
	for _, keyless := range []bool{true, false} {
		c, _ := serve(t, ask.Config{Sandbox: given, Keyless: keyless})
		if _, err := c.Token(t.Context(), r); client.IsKind(err, broker.Forbidden) != keyless {
			t.Errorf("%v: %v", keyless, err)
		}
	}
}

// TestRefusals: the box reads ebb's own words, and of the runner's machine nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	said := error(&client.Problem{Status: 403, Kind: broker.Denied, Detail: "Policy says no.", RetryAfter: 1500 * time.Millisecond, Instance: "req-1"})
	c, socket := serve(t, ask.Config{Sandbox: sandbox(func(client.TokenRequest) (client.Credential, error) { return client.Credential{}, said })})
	_, err := c.Token(t.Context(), client.TokenRequest{Scope: scopes.MustParseSet("a:b:read")})
	if p, is := errors.AsType[*client.Problem](err); !is || p.Kind != broker.Denied || p.Detail != "Policy says no." || p.Status != 403 || p.RetryAfter != 2*time.Second {
		t.Errorf("%+v", err)
	}
	said = errors.New("dial tcp 192.0.2.7:8420: /home/ann/secret")
	_, err = c.Token(t.Context(), client.TokenRequest{Scope: scopes.MustParseSet("a:b:read")})
	if p, is := errors.AsType[*client.Problem](err); !is || p.Kind != broker.Unavailable || strings.Contains(err.Error(), "192.0.2.7") {
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

// TestConnections: a box has so many connections at one time, and the next is answered when
// one of them is over. One that says nothing is over by itself.
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
		// Answered once and kept, so that it is certain to be counted.
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
		_, err := c.Prove(t.Context(), "GET", "https://a/x", provider.NewSecret("t"))
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
