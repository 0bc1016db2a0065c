package demo

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/fips140"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

// Names of the SSH provider, and of the group and login of its certificates.
const (
	SSHProvider = "ssh"
	hostGroup   = "lighthouse"
	hostLogin   = "keeper"
)

// SSHOptions is the configuration of the SSH provider. The host fetches the
// revocation list at each login; 1 s is the shortest permitted refresh.
const SSHOptions = `{"groups": {"` + hostGroup + `": {"logins": ["` + hostLogin + `"], "source_address": ["127.0.0.0/8"]}}, "krl": {"refresh": "1s"}, "max_ttl": "10m"}`

// Host is an SSH server in this process. From ebb it gets only the CA's keys
// and the revocation list, like a real one.
type Host struct {
	Addr string

	listener net.Listener
	key      ssh.Signer
	issuer   string
	http     *http.Client
	cas      []ssh.PublicKey

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// OpenHost listens on a free port of loopback.
func OpenHost(ctx context.Context) (*Host, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the SSH host: %w", err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		return nil, err
	}
	return &Host{Addr: l.Addr().String(), listener: l, key: key, conns: map[net.Conn]bool{}}, nil
}

// Key is the host's public key as a line of known_hosts, without the host name.
func (h *Host) Key() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(h.key.PublicKey())))
}

// Close closes the listener and all connections.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		_ = c.Close()
	}
	return h.listener.Close()
}

// serve accepts certificates of ebb until the host is closed. It fetches the
// CA's keys once, as when a host is set up.
func (h *Host) serve(ctx context.Context, issuer string, hc *http.Client) error {
	h.issuer, h.http = issuer, hc
	lines, err := h.fetch(ctx, "/v1/ssh/ca?provider="+SSHProvider)
	for err == nil && len(lines) > 0 {
		var ca ssh.PublicKey
		if ca, _, _, lines, err = ssh.ParseAuthorizedKey(lines); err == nil {
			h.cas = append(h.cas, ca)
		}
	}
	if err != nil || len(h.cas) == 0 {
		return fmt.Errorf("get the CA of the SSH host: %w", errors.Join(err, errors.New("no usable key")))
	}
	go func() {
		for {
			c, err := h.listener.Accept()
			if err != nil {
				return
			}
			go h.connection(ctx, c)
		}
	}()
	return nil
}

func (h *Host) fetch(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.issuer+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, krl.MaxSize+1))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: status %s", path, resp.Status)
	}
	return b, err
}

// admit does the checks of sshd with TrustedUserCAKeys, RevokedKeys and
// AuthorizedPrincipals. If the revocation list cannot be fetched, every login
// is refused.
func (h *Host) admit(ctx context.Context, user string, key ssh.PublicKey) (*ssh.Permissions, error) {
	cert, ok := key.(*ssh.Certificate)
	// x/crypto accepts a certificate without principals for every user.
	if !ok || cert.CertType != ssh.UserCert || len(cert.ValidPrincipals) == 0 {
		return nil, errors.New("the key must be a user certificate with principals")
	}
	if !slices.ContainsFunc(h.cas, func(ca ssh.PublicKey) bool { return bytes.Equal(ca.Marshal(), cert.SignatureKey.Marshal()) }) {
		return nil, errors.New("the certificate is signed by another CA")
	}
	b, err := h.fetch(ctx, "/v1/ssh/krl?provider="+SSHProvider)
	if err != nil {
		return nil, err
	}
	revoked, err := krl.Parse(b)
	if err != nil {
		return nil, err
	}
	check := ssh.CertChecker{
		SupportedCriticalOptions: []string{"force-command", "source-address"},
		IsRevoked: func(c *ssh.Certificate) bool {
			return revoked.Revokes(krl.Subject{Key: c.Key.Marshal(), CA: c.SignatureKey.Marshal(), Serial: c.Serial, KeyID: c.KeyId})
		},
	}
	if err := check.CheckCert(user+"@"+hostGroup, cert); err != nil {
		return nil, err
	}
	return &cert.Permissions, nil // the server checks source-address
}

// sshAlgorithms are the defaults of x/crypto. Under GODEBUG=fips140=only they
// are the ones that work there: neither X25519 nor AES-GCM with a counter does.
func sshAlgorithms() ssh.Config {
	if !fips140.Enforced() {
		return ssh.Config{}
	}
	return ssh.Config{KeyExchanges: []string{ssh.KeyExchangeECDHP256}, Ciphers: []string{ssh.CipherAES256CTR}}
}

func (h *Host) connection(ctx context.Context, c net.Conn) {
	h.mu.Lock()
	h.conns[c] = true
	h.mu.Unlock()
	defer func() {
		_ = c.Close()
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
	}()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	config := &ssh.ServerConfig{Config: sshAlgorithms(), PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		return h.admit(ctx, m.User(), key)
	}}
	config.AddHostKey(h.key)
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.Prohibited, "sessions only")
			continue
		}
		channel, asked, err := offered.Accept()
		if err != nil {
			return
		}
		go session(channel, asked, conn.Permissions.CriticalOptions["force-command"])
	}
}

// session echoes one command. Every other request of a client needs an
// extension that the certificate does not have.
func session(channel ssh.Channel, asked <-chan *ssh.Request, force string) {
	defer channel.Close()
	for r := range asked {
		var exec struct{ Command string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &exec) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		if force != "" {
			exec.Command = force
		}
		_ = r.Reply(true, nil)
		_, _ = fmt.Fprintf(channel, "%s: %s\n", hostGroup, exec.Command)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{0}))
		return
	}
}

// sshKey generates a key and returns its line of authorized_keys.
func sshKey() (ssh.Signer, string, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	s, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		return nil, "", err
	}
	return s, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey()))), nil
}

// sshCert parses the certificate that ebb issued.
func sshCert(line string) (*ssh.Certificate, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, err
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("a %s is not a certificate", key.Type())
	}
	return cert, nil
}

// sshRun logs in with a certificate and runs a command, as ssh(1) does.
func sshRun(ctx context.Context, addr, hostKey, user string, cert *ssh.Certificate, key ssh.Signer, command string) (string, error) {
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		return "", err
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(hostKey))
	if err != nil {
		return "", err
	}
	c, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", err
	}
	conn, channels, requests, err := ssh.NewClientConn(c, addr, &ssh.ClientConfig{
		Config: sshAlgorithms(), User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(host),
	})
	if err != nil {
		return "", err
	}
	client := ssh.NewClient(conn, channels, requests)
	defer client.Close()
	s, err := client.NewSession()
	if err != nil {
		return "", err
	}
	defer s.Close()
	var out bytes.Buffer
	s.Stdout = &out
	err = s.Run(command)
	return out.String(), err
}
