package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"ebb/broker/provider"
	"ebb/web/client"
)

// Client is the box's side. It is safe for concurrent use.
type Client struct{ http *http.Client }

// NewClient asks at a socket.
func NewClient(socket string) *Client {
	return &Client{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Token asks for a credential. With Wait it takes as long as a person does.
func (c *Client) Token(ctx context.Context, r client.TokenRequest) (client.Credential, error) {
	var a answer
	err := c.do(ctx, tokenPath, question{
		Scope: r.Scope, Resource: r.Resource, TTLSeconds: int64(r.TTL / time.Second), Tool: r.Tool, Reason: r.Reason, Wait: r.Wait, PublicKey: r.PublicKey, Delivery: r.Delivery,
	}, &a)
	if err != nil {
		return client.Credential{}, err
	}
	return client.Credential{
		Token: provider.NewSecret(a.Token), Type: a.Type, Format: a.Format, ExpiresAt: a.ExpiresAt, Scope: a.Scope, Resource: a.Resource, LeaseID: a.LeaseID, Class: a.Class,
	}, nil
}

// Prove asks for the proof of one request with a credential.
func (c *Client) Prove(ctx context.Context, method, url string, token provider.Secret) (string, error) {
	var a proofAnswer
	err := c.do(ctx, provePath, proofQuestion{Method: method, URL: url, Token: token.Reveal()}, &a)
	return a.Proof, err
}

func (c *Client) do(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("asking the runner: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://runner"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking the runner: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("asking the runner: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("asking the runner: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		r := refusal{Status: resp.StatusCode}
		if err := json.Unmarshal(text, &r); err != nil {
			return &client.Problem{Status: resp.StatusCode}
		}
		return r.problem()
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the runner's answer: %w", err)
	}
	return nil
}
