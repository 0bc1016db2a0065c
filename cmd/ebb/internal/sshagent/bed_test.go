package sshagent_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sshagent"
	"github.com/ebb-broker/ebb/web/wire"
)

// bed is an agent with certificates of a CA, at a socket.
type bed struct {
	t      *testing.T
	socket string
	ca     ssh.Signer

	mu     sync.Mutex
	now    time.Time
	issued int
	state  map[string]wire.LeaseState
	doubt  error // error of State: the state of the lease is unknown
	forge  func(*ssh.Certificate)
	log    bytes.Buffer
}

// Write implements io.Writer, for the log.
func (b *bed) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(line)
}

// logged returns the log since the previous call.
func (b *bed) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.log.Reset()
	return b.log.String()
}

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newBed returns an agent with one identity, for hosts.
func newBed(t *testing.T, hosts ...sshagent.HostKeys) *bed {
	t.Helper()
	b := &bed{t: t, socket: filepath.Join(t.TempDir(), "s"), ca: newSigner(t), now: time.Unix(1790000000, 0), state: map[string]wire.LeaseState{}}
	b.serve(b.identity("one", hosts...))
	return b
}

func (b *bed) identity(name string, hosts ...sshagent.HostKeys) sshagent.Identity {
	return sshagent.Identity{Name: name, Hosts: hosts, Issue: func(_ context.Context, publicKey string) (sshagent.Issued, error) { return b.issue(name, publicKey) }}
}

func (b *bed) serve(ids ...sshagent.Identity) {
	b.t.Helper()
	a, err := sshagent.New(sshagent.Config{Identities: ids, State: b.stateOf, Now: b.clock, Logger: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		b.t.Fatal(err)
	}
	l, err := net.Listen("unix", b.socket)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, l) }()
	b.t.Cleanup(func() { cancel(); <-ended })
}

func (b *bed) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bed) stateOf(_ context.Context, leaseID string) (wire.LeaseState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state[leaseID], b.doubt
}

// issue certifies a key for deploy@web, like the provider.
func (b *bed) issue(name, publicKey string) (sshagent.Issued, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(publicKey))
	if err != nil {
		return sshagent.Issued{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.issued++
	expires := b.now.Add(10 * time.Minute)
	c := &ssh.Certificate{
		Key: key, CertType: ssh.UserCert, Serial: uint64(b.issued), KeyId: name, ValidPrincipals: []string{"deploy@web", "ops@web"},
		ValidAfter: uint64(b.now.Unix()), ValidBefore: uint64(expires.Unix()),
	}
	if b.forge != nil {
		b.forge(c)
	}
	if err := c.SignCert(rand.Reader, b.ca); err != nil {
		return sshagent.Issued{}, err
	}
	id := "lse_" + name + strings.Repeat("i", b.issued)
	b.state[id] = wire.LeaseLive
	return sshagent.Issued{Line: string(ssh.MarshalAuthorizedKey(c)), LeaseID: id, ExpiresAt: expires}, nil
}

// set changes the state of the last lease of an identity.
func (b *bed) set(s wire.LeaseState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.state {
		b.state[id] = s
	}
}

func (b *bed) wait(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// dial opens a connection of a client.
func (b *bed) dial() net.Conn {
	b.t.Helper()
	c, err := net.Dial("unix", b.socket)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// client is the client of x/crypto. It reads its connection all the time.
func (b *bed) client() agent.ExtendedAgent { return agent.NewClient(b.dial()) }

// cert is the only listed certificate.
func (b *bed) cert(a agent.Agent) *agent.Key {
	b.t.Helper()
	list, err := a.List()
	if err != nil || len(list) != 1 {
		b.t.Fatalf("%d certificates, %v", len(list), err)
	}
	return list[0]
}

// request is the data that ssh signs to log in.
type request struct {
	Session   []byte
	Message   byte
	User      string
	Service   string
	Method    string
	Signed    bool
	Algorithm string
	Key       []byte
	More      []byte `ssh:"rest"`
}

func session(fill string) []byte { return []byte(strings.Repeat(fill, 32)) }

func loginWith(k *agent.Key) request {
	return request{Session: session("s"), Message: 50, User: "deploy", Service: "ssh-connection", Method: "publickey", Signed: true, Algorithm: k.Format, Key: k.Blob}
}

// bindTo is a session-bind request for a session with a host.
func bindTo(t *testing.T, host ssh.Signer, session []byte, forwarding bool) []byte {
	t.Helper()
	signature, err := host.Sign(rand.Reader, session)
	if err != nil {
		t.Fatal(err)
	}
	return ssh.Marshal(struct {
		Key, Session, Signature []byte
		Forwarding              bool
	}{host.PublicKey().Marshal(), session, ssh.Marshal(signature), forwarding})
}

func hostKeys(t *testing.T, lines string) sshagent.HostKeys {
	t.Helper()
	h, err := sshagent.ParseHostKeys("web-1.example.com", 22, []byte(lines))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func known(key ssh.PublicKey) string {
	return "web-1.example.com " + string(ssh.MarshalAuthorizedKey(key))
}
