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

	"ebb/attest/dpop"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/scopes"
	"ebb/web/client"
	"ebb/web/load"
)

// run is the state of one bench.
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

// newTask opens a task with the largest caps and enrols a sandbox for it.
func (b *run) newTask(ctx context.Context) (sandbox, error) {
	task, ticket, err := b.runner.OpenTask(ctx, broker.TaskSpec{
		Name: "ebb bench", Kind: "bench", TTL: broker.Seconds(b.TaskTTL / time.Second), Ceiling: b.scope, Heartbeat: broker.Seconds(b.Heartbeat / time.Second),
		Caps: broker.Caps{Leases: 1_000_000, MintsPerMinute: 1_000_000}, Expect: broker.Expect{Attestor: "enroll"}, Ticket: true,
	})
	if err != nil {
		return sandbox{}, err
	}
	if ticket == nil {
		return sandbox{}, errors.New("no ticket came with the task")
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

// serverToken is an unbound token, as a resource server may have: what Vault's
// and OpenBao's callers send too.
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
		return "", fmt.Errorf("the resource server %s gets no token: %w", b.ServerID, err)
	}
	return token, nil
}

// accessToken reads one answer of the token endpoint.
func accessToken(status int, body []byte) (string, error) {
	var a struct {
		Token string `json:"access_token"`
		Error string `json:"error"`
		Said  string `json:"error_description"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return "", fmt.Errorf("status %d and no JSON", status)
	}
	if a.Token == "" {
		return "", fmt.Errorf("status %d: %s: %s", status, a.Error, a.Said)
	}
	return a.Token, nil
}

// proof is one DPoP proof, made now.
func (s sandbox) proof(method, target, token, nonce string) (string, error) {
	return dpop.NewProof(s.key, method, target, token, nonce, time.Now())
}
