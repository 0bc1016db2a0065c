package awskeys_test

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
	"github.com/ebb-broker/ebb/cmd/ebb/internal/awskeys"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

const (
	said    = "the-runner-said-this"
	session = `{"Version":1,"AccessKeyId":"ASIA1","SecretAccessKey":"session-canary","SessionToken":"t","Expiration":"2026-09-21T14:13:20Z"}`
)

var until = time.Unix(1790000000, 0)

func placeholder(context.Context) (client.Credential, error) {
	return client.Credential{Token: secret.New("ebb-placeholder.lse_1"), Format: provider.PlaceholderFormat, ExpiresAt: until}, nil
}

// serve returns a client of the endpoint.
func serve(t *testing.T, c awskeys.Config) *http.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- awskeys.Serve(ctx, l, c) }()
	t.Cleanup(func() { cancel(); <-ended })
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client, method, path string, authorization ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:3129"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header["Authorization"] = authorization
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestWhoAsks: a request without the runner's token is refused, and ebb is not
// called.
//
//ebb:invariant I6 Container credentials are returned only to requests with the authorization token that the runner gave to the sandbox, so browser pages get none
func TestWhoAsks(t *testing.T) {
	t.Parallel()
	asked := false
	ask := func(ctx context.Context) (client.Credential, error) { asked = true; return placeholder(ctx) }
	c := serve(t, awskeys.Config{Authorization: said, Get: ask})
	for _, tt := range []struct {
		method, path string
		said         []string
	}{
		{"GET", awskeys.Path, nil},
		{"GET", awskeys.Path, []string{""}},
		{"GET", awskeys.Path, []string{said[:5]}},
		{"GET", awskeys.Path, []string{said + "x"}},
		{"GET", awskeys.Path, []string{"Bearer " + said}},
		{"GET", awskeys.Path, []string{"other", said}},
		{"POST", awskeys.Path, []string{said}},
		{"GET", awskeys.Path + "/x", []string{said}},
		{"GET", "/", []string{said}},
	} {
		if status, text := get(t, c, tt.method, tt.path, tt.said...); status < 400 || strings.Contains(text, "placeholder") || asked {
			t.Errorf("%s %s %q: %d %s", tt.method, tt.path, tt.said, status, text)
		}
	}
	if status, text := get(t, c, "GET", awskeys.Path, said); status != 200 || !asked {
		t.Errorf("who says it: %d %s", status, text)
	}
	// If the runner has set no token, a request without one is refused too.
	asked = false
	if status, _ := get(t, serve(t, awskeys.Config{Get: ask}), "GET", awskeys.Path, ""); status != 403 || asked {
		t.Errorf("nothing was said: %d", status)
	}
}

// TestKeys: SDKs require all four fields, also without a session.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ format, token, want, process string }{
		{
			provider.PlaceholderFormat, "ebb-placeholder.lse_1",
			`{"AccessKeyId":"ebb-placeholder.lse_1","SecretAccessKey":"stays-in-ebb","Token":"","Expiration":"2026-09-21T14:13:20Z"}`,
			`{"Version":1,"AccessKeyId":"ebb-placeholder.lse_1","SecretAccessKey":"stays-in-ebb","Expiration":"2026-09-21T14:13:20Z"}`,
		},
		{"urn:ebb:token-type:aws", session, `{"AccessKeyId":"ASIA1","SecretAccessKey":"session-canary","Token":"t","Expiration":"2026-09-21T14:13:20Z"}`, session},
	} {
		cred := client.Credential{Token: secret.New(tt.token), Format: tt.format, ExpiresAt: until}
		c := serve(t, awskeys.Config{Authorization: said, Get: func(context.Context) (client.Credential, error) { return cred, nil }})
		if status, text := get(t, c, "GET", awskeys.Path, said); status != 200 || strings.TrimSpace(text) != tt.want {
			t.Errorf("%d %s", status, text)
		}
		keys, err := awskeys.Of(cred)
		text, _ := json.Marshal(keys.Process())
		if err != nil || string(text) != tt.process {
			t.Errorf("%s, %v", text, err)
		}
	}
}

// TestRefusals: a sandbox gets ebb's own error text, and of any other failure
// only that it failed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	given := func(format, token string) func(context.Context) (client.Credential, error) {
		return func(context.Context) (client.Credential, error) {
			return client.Credential{Token: secret.New(token), Format: format}, nil
		}
	}
	for _, tt := range []struct {
		name   string
		get    func(context.Context) (client.Credential, error)
		status int
		want   string
	}{
		{"ebb denies", func(context.Context) (client.Credential, error) {
			return client.Credential{}, &client.Problem{Status: 403, Kind: wire.KindDenied, Detail: "No policy allows it."}
		}, 403, "No policy allows it."},
		{"ebb is gone", func(context.Context) (client.Credential, error) {
			return client.Credential{}, errors.New("dial canary")
		}, 503, "Try again"},
		{"a status that is none", func(context.Context) (client.Credential, error) {
			return client.Credential{}, &client.Problem{Status: 7, Detail: "canary"}
		}, 503, "Try again"},
		{"a token of another kind", given("urn:other", "canary"), 403, "kind aws"},
		{"no document", given("urn:ebb:token-type:aws", "canary"), 503, "Try again"},
		{"half of a document", given("urn:ebb:token-type:aws", `{"AccessKeyId":"canary"}`), 503, "Try again"},
	} {
		c := serve(t, awskeys.Config{Authorization: said, Get: tt.get})
		if status, text := get(t, c, "GET", awskeys.Path, said); status != tt.status || !strings.Contains(text, tt.want) || strings.Contains(text, "canary") {
			t.Errorf("%s: %d %s", tt.name, status, text)
		}
	}
}
