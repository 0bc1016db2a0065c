package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
)

// order is an order of the tour to the sandbox.
type order struct {
	Do     string `json:"do"` // enrol, ask, use, show, certify, login
	Ticket string `json:"ticket,omitempty"`
	Scope  string `json:"scope,omitempty"`
	Reason string `json:"reason,omitempty"`
	Wait   bool   `json:"wait,omitempty"`
	Method string `json:"method,omitempty"`
	URL    string `json:"url,omitempty"`
	Token  string `json:"token,omitempty"` // name under which the credential is stored
	Host   string `json:"host,omitempty"`  // address of the SSH host
	Key    string `json:"key,omitempty"`   // its public key
	Login  string `json:"login,omitempty"`
}

// reply is the sandbox's reply to an order.
type reply struct {
	Error  string        `json:"error,omitempty"`
	Kind   string        `json:"kind,omitempty"`
	Status int           `json:"status,omitempty"` // of the shop
	Scope  string        `json:"scope,omitempty"`
	TTL    time.Duration `json:"ttl,omitempty"`
	Lease  string        `json:"lease,omitempty"`
	Auth   string        `json:"auth,omitempty"` // header lines, for the attacks
	Proof  string        `json:"proof,omitempty"`
	Out    string        `json:"out,omitempty"` // of a command on the SSH host
}

// sandbox is the state of the child process.
type sandbox struct {
	key    jose.Signer
	client *client.Sandbox
	tokens map[string]client.Credential
	cert   *ssh.Certificate
	login  ssh.Signer // the certificate's private key; it never leaves this process
}

// Sandbox is the child process. It generates its key, which never leaves it,
// and executes the orders on in, with one reply on out for each.
func Sandbox(ctx context.Context, issuer string, in io.Reader, out io.Writer) error {
	key, err := client.NewKey(jose.EdDSA)
	if err != nil {
		return err
	}
	c, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: issuer}, Key: key})
	if err != nil {
		return err
	}
	b := &sandbox{key: key, client: c, tokens: map[string]client.Credential{}}
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := dec.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r, err := b.obey(ctx, o)
		if err != nil {
			r.Error = err.Error()
			if p, ok := errors.AsType[*client.Problem](err); ok {
				r.Kind = string(p.Kind)
			}
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
}

func (b *sandbox) obey(ctx context.Context, o order) (reply, error) {
	switch o.Do {
	case "enrol":
		_, err := b.client.Enrol(ctx, secret.New(o.Ticket))
		return reply{}, err
	case "ask":
		return b.ask(ctx, o)
	case "use":
		return b.use(ctx, o)
	case "show":
		return b.show(ctx, o)
	case "certify":
		return b.certify(ctx, o)
	case "login":
		out, err := sshRun(ctx, o.Host, o.Key, o.Login, b.cert, b.login, "uptime")
		return reply{Out: out}, err
	}
	return reply{}, fmt.Errorf("unknown order %q", o.Do)
}

func (b *sandbox) ask(ctx context.Context, o order) (reply, error) {
	cred, err := b.client.Token(ctx, client.TokenRequest{Scope: o.Scope, Reason: o.Reason, Tool: "orders-cli", Wait: o.Wait})
	if err != nil {
		return reply{}, err
	}
	b.tokens[o.Token] = cred
	return reply{Scope: cred.Scope, TTL: time.Until(cred.ExpiresAt).Round(time.Second), Lease: cred.LeaseID}, nil
}

// certify requests an SSH certificate over a new key, and waits for the
// approval.
func (b *sandbox) certify(ctx context.Context, o order) (reply, error) {
	key, line, err := sshKey()
	if err != nil {
		return reply{}, err
	}
	cred, err := b.client.Token(ctx, client.TokenRequest{Scope: o.Scope, Tool: "ssh", Wait: true, PublicKey: line})
	if err != nil {
		return reply{}, err
	}
	b.login = key
	b.cert, err = sshCert(cred.Token.Reveal())
	return reply{Scope: cred.Scope, TTL: time.Until(cred.ExpiresAt).Round(time.Second), Lease: cred.LeaseID}, err
}

func (b *sandbox) use(ctx context.Context, o order) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, o.Method, o.URL, strings.NewReader(""))
	if err != nil {
		return reply{}, err
	}
	resp, err := b.client.Transport(b.tokens[o.Token], nil).RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return reply{Status: resp.StatusCode}, err
}

// show reveals a token and one proof, as a careless tool would by logging its
// request. The proof has the nonce that the server requires.
func (b *sandbox) show(ctx context.Context, o order) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, o.Method, o.URL, nil)
	if err != nil {
		return reply{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	_ = resp.Body.Close()
	token := b.tokens[o.Token].Token.Reveal()
	proof, err := dpop.NewProof(b.key, o.Method, o.URL, token, resp.Header.Get("DPoP-Nonce"), time.Now())
	return reply{Auth: "DPoP " + token, Proof: proof}, err
}
