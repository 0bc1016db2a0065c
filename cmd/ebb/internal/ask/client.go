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

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Client is the side of the sandbox. It is safe for concurrent use.
type Client struct{ http *http.Client }

// NewClient returns a client that connects to a Unix socket.
func NewClient(socket string) *Client {
	return &Client{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Token requests a credential. With Wait it returns after the request was
// decided.
func (c *Client) Token(ctx context.Context, r client.TokenRequest) (client.Credential, error) {
	resp, err := c.post(ctx, tokenPath, question{
		Scope: r.Scope, Resource: r.Resource, TTLSeconds: int64(r.TTL / time.Second), Tool: r.Tool, Reason: r.Reason, Wait: r.Wait, PublicKey: r.PublicKey, Delivery: r.Delivery, Content: r.Content, Told: r.Pending != nil,
	})
	if err != nil {
		return client.Credential{}, err
	}
	defer resp.Body.Close()
	var a answer
	if resp.Header.Get("Content-Type") == typeLines {
		err = readLines(resp.Body, &a, r.Pending)
	} else {
		err = readAnswer(resp, &a)
	}
	if err != nil {
		return client.Credential{}, err
	}
	return client.Credential{
		Token: secret.New(a.Token), Type: a.Type, Format: a.Format, ExpiresAt: a.ExpiresAt, Scope: a.Scope, Resource: a.Resource, LeaseID: a.LeaseID, Class: a.Class, Endpoint: a.Endpoint,
	}, nil
}

// readLines reads a response that waits for an approval.
func readLines(body io.Reader, a *answer, told func(client.Pending)) error {
	dec := json.NewDecoder(io.LimitReader(body, maxAnswer))
	for {
		var l line
		if err := dec.Decode(&l); err != nil {
			return fmt.Errorf("read the runner's response: %w", err)
		}
		switch {
		case l.Refusal != nil:
			return l.Refusal.problem()
		case l.Answer != nil:
			*a = *l.Answer
			return nil
		case l.Pending != nil && told != nil:
			told(client.Pending{RequestID: l.Pending.RequestID, Page: l.Pending.Page, ExpiresIn: time.Duration(l.Pending.ExpiresInSeconds) * time.Second, Groups: l.Pending.Groups})
		}
	}
}

// Credentials lists the credentials issued to this sandbox.
func (c *Client) Credentials(ctx context.Context) ([]wire.OwnCredential, error) {
	var a listAnswer
	err := c.do(ctx, listPath, listQuestion{}, &a)
	return a.Items, err
}

// RevokeLease revokes a credential of this sandbox by its lease ID. Other
// leases are refused.
func (c *Client) RevokeLease(ctx context.Context, leaseID string) error {
	return c.do(ctx, revokePath, revokeQuestion{leaseID}, &revokeAnswer{})
}

// Complete completes the task, which revokes every credential; the runner then
// stops the sandbox.
func (c *Client) Complete(ctx context.Context) (Completed, error) {
	var a Completed
	err := c.do(ctx, completePath, completeQuestion{}, &a)
	return a, err
}

// Prove requests a DPoP proof for one request with a credential.
func (c *Client) Prove(ctx context.Context, method, url string, token secret.Secret) (string, error) {
	var a proofAnswer
	err := c.do(ctx, provePath, proofQuestion{Method: method, URL: url, Token: token.Reveal()}, &a)
	return a.Proof, err
}

func (c *Client) do(ctx context.Context, path string, in, out any) error {
	resp, err := c.post(ctx, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readAnswer(resp, out)
}

func (c *Client) post(ctx context.Context, path string, in any) (*http.Response, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("asking the runner: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://runner"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("asking the runner: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the runner: %w", err)
	}
	return resp, nil
}

// readAnswer reads a response that is one document.
func readAnswer(resp *http.Response, out any) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
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
		return fmt.Errorf("read the runner's response: %w", err)
	}
	return nil
}
