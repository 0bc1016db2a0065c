package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// run is the state of one benchmark.
type run struct {
	Config
	report *Report
	runner *client.Operator
	scope  scopes.Set
	bearer string // of the resource server
}

// sandbox is one enrolled sandbox and its task.
type sandbox struct {
	id    string // of the task
	key   jose.Signer
	token string // task token
}

func (b *run) enter(ctx context.Context) (err error) {
	if b.scope, err = scopes.ParseSet(b.Scope); err != nil {
		return err
	}
	b.runner, err = client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: b.Issuer, HTTP: b.HTTP}, ClientID: b.RunnerID, Key: b.Runner})
	if err != nil || b.ServerID == "" {
		return err
	}
	b.bearer, err = b.serverToken(ctx)
	return err
}

// newTask opens a task with the largest limits and enrols a sandbox for it.
func (b *run) newTask(ctx context.Context) (sandbox, error) {
	task, ticket, err := b.runner.Tasks.Open(ctx, wire.TaskSpec{
		Name: "ebb-bench", Kind: "bench", TTL: int64(b.TaskTTL / time.Second), Ceiling: b.scope.String(), Heartbeat: int64(b.Heartbeat / time.Second),
		Caps: wire.Caps{Leases: 1_000_000, MintsPerMinute: 1_000_000}, Expect: wire.Expect{Attestor: "enroll"}, Ticket: true,
	})
	if err != nil {
		return sandbox{}, err
	}
	if ticket == nil {
		return sandbox{}, errors.New("ebb returned no ticket with the task")
	}
	s := sandbox{id: task.ID}
	if s.key, err = client.NewKey(jose.ES256); err != nil {
		return s, err
	}
	c, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: b.Issuer, HTTP: b.HTTP}, Key: s.key})
	if err != nil {
		return s, err
	}
	e, err := c.Enrol(ctx, ticket.Ticket)
	if err != nil {
		return s, err
	}
	s.token = e.TaskToken.Reveal()
	return s, nil
}

// serverToken gets a token without a key binding, as a resource server may use
// it and clients of the Vault and OpenBao APIs do.
func (b *run) serverToken(ctx context.Context) (string, error) {
	now := time.Now()
	kid, err := jose.Thumbprint(b.Server.Public())
	if err != nil {
		return "", err
	}
	assertion, err := jose.Sign(b.Server, jose.SignHeader{Type: "client-authentication+jwt", KID: kid}, map[string]any{
		"iss": b.ServerID, "sub": b.ServerID, "aud": b.Issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
	if err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type": {"client_credentials"}, "resource": {b.Issuer + "/v1"}, "client_id": {b.ServerID},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {assertion},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.Issuer+tokenPath, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", load.FormType)
	resp, err := b.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", err
	}
	token, err := accessToken(resp.StatusCode, body)
	if err != nil {
		return "", fmt.Errorf("get a token for the resource server %s: %w", b.ServerID, err)
	}
	return token, nil
}

// accessToken reads one response of the token endpoint.
func accessToken(status int, body []byte) (string, error) {
	var a struct {
		Token string `json:"access_token"`
		Error string `json:"error"`
		Said  string `json:"error_description"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return "", fmt.Errorf("status %d and a body that is not JSON", status)
	}
	if a.Token == "" {
		return "", fmt.Errorf("status %d: %s: %s", status, a.Error, a.Said)
	}
	return a.Token, nil
}

// proof makes one DPoP proof with the current time.
func (s sandbox) proof(method, target, token, nonce string) (string, error) {
	return dpop.NewProof(s.key, method, target, token, nonce, time.Now())
}
