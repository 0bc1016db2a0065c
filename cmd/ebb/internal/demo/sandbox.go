package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
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

// tourSandbox is the state of the child process.
type tourSandbox struct {
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
	b := &tourSandbox{key: key, client: c, tokens: map[string]client.Credential{}}
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

func (b *tourSandbox) obey(ctx context.Context, o order) (reply, error) {
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

func (b *tourSandbox) ask(ctx context.Context, o order) (reply, error) {
	cred, err := b.client.Token(ctx, client.TokenRequest{Scope: o.Scope, Reason: o.Reason, Tool: "orders-cli", Wait: o.Wait})
	if err != nil {
		return reply{}, err
	}
	b.tokens[o.Token] = cred
	return reply{Scope: cred.Scope, TTL: time.Until(cred.ExpiresAt).Round(time.Second), Lease: cred.LeaseID}, nil
}

// certify requests an SSH certificate over a new key, and waits for the
// approval.
func (b *tourSandbox) certify(ctx context.Context, o order) (reply, error) {
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

func (b *tourSandbox) use(ctx context.Context, o order) (reply, error) {
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
func (b *tourSandbox) show(ctx context.Context, o order) (reply, error) {
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

// remote is the tour's side of the sandbox.
type remote struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

// openRemote starts the sandbox: a child process of this binary, without the
// environment and without any of the tour's keys.
func openRemote(ctx context.Context, executable, issuer string) (*remote, error) {
	cmd := exec.CommandContext(ctx, executable, "demo", "sandbox")
	cmd.Env = []string{"EBB_URL=" + issuer}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	return &remote{cmd: cmd, in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(out)}, nil
}

// close closes the child's input and waits until it has ended.
func (b *remote) close() error { return errors.Join(b.in.Close(), b.cmd.Wait()) }

// tell sends an order and waits for the reply.
func (b *remote) tell(o order) (reply, error) {
	if err := b.enc.Encode(o); err != nil {
		return reply{}, fmt.Errorf("send an order to the sandbox: %w", err)
	}
	return b.hear()
}

func (b *remote) hear() (reply, error) {
	var r reply
	if err := b.dec.Decode(&r); err != nil {
		return r, fmt.Errorf("read the sandbox's reply: %w", err)
	}
	return r, nil
}

// good returns the error of a reply.
func good(r reply, err error) error {
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	return err
}

// refused returns nil if the error of a reply has one of the kinds.
func refused(r reply, err error, kinds ...wire.Kind) error {
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if r.Kind == string(k) {
			return nil
		}
	}
	if r.Error == "" {
		return errors.New("it was not refused")
	}
	return fmt.Errorf("refused with another kind: %s", r.Error)
}

// status returns nil if the shop's status in a reply is want.
func status(r reply, err error, want int) error {
	if err := good(r, err); err != nil {
		return err
	}
	if r.Status != want {
		return fmt.Errorf("the shop answered %d, not %d", r.Status, want)
	}
	return nil
}

// attacks shows that a proof works once, and that a token does not work without
// its key.
func (s *stage) attacks() error {
	s.act("What a thief gets")
	target := s.Shop.URL + "/orders/eu/42"
	r, err := s.sandbox.tell(order{Do: "show", Token: "read", Method: http.MethodGet, URL: target})
	if err := s.expect(good(r, err), "a careless tool logs a whole request, token and proof"); err != nil {
		return err
	}
	if err := s.expect(s.knock(target, r.Auth, r.Proof, http.StatusOK), "the logged request works once"); err != nil {
		return err
	}
	if err := s.expect(s.knock(target, r.Auth, r.Proof, http.StatusUnauthorized), "the same request is refused the second time: a proof works once"); err != nil {
		return err
	}
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return err
	}
	token := strings.TrimPrefix(r.Auth, "DPoP ")
	forged, err := dpop.NewProof(key, http.MethodGet, target, token, "", time.Now())
	if err != nil {
		return err
	}
	if err := s.expect(s.knock(target, r.Auth, forged, http.StatusUnauthorized), "the stolen token with the thief's own proof is refused"); err != nil {
		return err
	}
	return s.expect(s.knock(target, "Bearer "+token, "", http.StatusUnauthorized), "the stolen token as a bearer token is refused")
}

// knock sends one GET request to the shop and expects a status.
func (s *stage) knock(url, auth, proof string, want int) error {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", auth)
	if proof != "" {
		req.Header.Set("DPoP", proof)
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if resp.StatusCode != want {
		return fmt.Errorf("the shop answered %d, not %d", resp.StatusCode, want)
	}
	return nil
}
