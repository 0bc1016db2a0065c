package egress_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/ssh"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// pipeBed is a broker that certifies keys for one SSH host, which the test runs.
type pipeBed struct {
	*bed
	host     string
	greeting string // first data from the server
	accepted chan net.Conn
}

const sshHello, sshServer = "SSH-2.0-test\r\n", "SSH-2.0-server\r\n"

func newPipeBed(t *testing.T, greeting string, change ...func(*brokertest.Config)) *pipeBed {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	b := &pipeBed{host: "web-1.example.com:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port), greeting: greeting, accepted: make(chan net.Conn, 64)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, greeting)
			b.accepted <- c
		}
	}()
	driver, err := ssh.New(ssh.Config{
		Name: "ssh", Dir: filepath.Join(t.TempDir(), "ca"), Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Ended:   func(context.Context, time.Time, func(provider.Target) error) error { return nil },
		Options: ssh.Options{Groups: map[string]ssh.Group{"web": {Logins: []string{"deploy"}, Hosts: []string{b.host}}, "mail": {Logins: []string{"deploy"}}}, KRL: ssh.KRLOptions{Refresh: "1s"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.bed = newBedOn(t, echo, func(c *brokertest.Config) {
		c.Policies["p.cedar"] = []byte(`@id("all") @why("all") permit (principal, action, resource);`)
		c.Providers["ssh"] = broker.Provider{Driver: driver, Kind: "ssh", Resource: "https://hosts.example.com/"}
		for _, f := range change {
			f(c)
		}
	})
	b.names.answers["web-1.example.com."] = [][]string{{"127.0.0.1"}}
	b.cfg.Dialer.Private["web-1.example.com"] = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	return b
}

// sshBox returns a sandbox with a certificate for a group of hosts; "" = none.
func (b *pipeBed) sshBox(t *testing.T, scope string) (*sandbox, string) {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("ssh:**:* stripe:**:*")
	x := b.boxOf(t, b.Open(t, spec))
	if scope == "" {
		return x, ""
	}
	return x, b.certify(t, x.s, scope, "")
}

func (b *pipeBed) certify(t *testing.T, s *brokertest.Sandbox, scope, tool string) string {
	t.Helper()
	r := s.Request(t, scope)
	r.PublicKey, r.Tool = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHYyHV3nvHFh0Q7M2j+LzrGVlkFEJA/Ld+eCrZEr3ueC", tool
	tok, err := b.Broker.Token(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return tok.LeaseID
}

// open opens a tunnel to a host and sends data in it.
func open(t *testing.T, x *sandbox, host, say string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("unix", x.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatalf("%q, %v", line, err)
	}
	if line, err := in.ReadString('\n'); err != nil || line != "\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := io.WriteString(c, say); err != nil {
		t.Fatal(err)
	}
	return c, in
}

// ends checks that a connection is closed, after data that was in transit at most.
func ends(t *testing.T, c net.Conn, in io.Reader) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	text, err := io.ReadAll(in)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Fatal("the connection goes on")
	}
	return string(text)
}

// Both directions are relayed byte for byte from the first byte. The audit log has an entry before
// anything is dialled, and one for the end.
func TestPipe(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, "welcome\r\nto the host\r\nSSH-2.0-server\r\n")
	x, lease := b.sshBox(t, "ssh:web/deploy:login")
	c, in := open(t, x, b.host, sshHello+"\x00\x01more")
	up := <-b.accepted
	for _, want := range []string{"welcome\r\nto the host\r\nSSH-2.0-server\r\n", "\xffanswer"} {
		if want[0] == 0xff {
			if _, err := io.WriteString(up, want); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	got := make([]byte, len(sshHello)+6)
	if _, err := io.ReadFull(up, got); err != nil || string(got) != sshHello+"\x00\x01more" {
		t.Fatalf("%q, %v", got, err)
	}
	if uses := b.uses(t, x.s.Task.ID); len(uses) != 1 || uses[0].Kind != audit.EgressAllowed || uses[0].LeaseID != lease || !strings.Contains(string(uses[0].Data), b.host) {
		t.Errorf("in the audit log: %+v", uses)
	}
	_ = up.Close()
	if rest := ends(t, c, in); rest != "" {
		t.Errorf("%q", rest)
	}
	until(t, "its end is in the audit log", func() bool { return len(b.uses(t, x.s.Task.ID)) == 2 })
	last := b.uses(t, x.s.Task.ID)[1]
	if d := string(last.Data); last.Kind != audit.EgressCompleted || !strings.Contains(d, `"sent_bytes":20`) || !strings.Contains(d, `"received_bytes":45`) {
		t.Errorf("how it ended: %s", d)
	}
}

// E17, E18 and E77: data that is not SSH, or for a host that no certificate of the caller covers,
// is not relayed, and nothing is dialled. A twin with one difference is.
//
//ebb:invariant I2 The egress proxy relays an SSH connection only under a live lease of the same task and tool that covers the host
//ebb:invariant I6 An SSH connection is relayed only if it begins with an SSH identification line, and the host is not dialled before that line
func TestPipeRefuses(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	mine, _ := b.sshBox(t, "ssh:web/deploy:login")
	none, _ := b.sshBox(t, "")
	mail, _ := b.sshBox(t, "ssh:mail/deploy:login")
	ended, lease := b.sshBox(t, "ssh:web/deploy:login")
	if _, err := b.Broker.RevokeLease(t.Context(), b.Principals[brokertest.Operator], lease, "test"); err != nil {
		t.Fatal(err)
	}
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("ssh:**:*")
	task := b.Open(t, spec)
	gits, err := b.sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], task.Task.ID, broker.EgressEndpointSpec{Tool: "git"})
	if err != nil {
		t.Fatal(err)
	}
	tool := &sandbox{b: b.bed, s: task, pem: gits.CA, socket: gits.Socket}
	b.certify(t, tool.s, "ssh:web/deploy:login", "deployer")
	paused, _ := b.sshBox(t, "ssh:web/deploy:login")
	if _, err := b.Broker.PauseTask(t.Context(), b.Principals[brokertest.Runner], paused.s.Task.ID, "test"); err != nil {
		t.Fatal(err)
	}
	seen := map[*sandbox]int{}
	name, _, _ := strings.Cut(b.host, ":")
	for _, c := range []struct {
		what      string
		x         *sandbox
		host, say string
		reason    string
	}{
		{"no certificate", none, b.host, sshHello, "no_credential"}, {"of another group", mail, b.host, sshHello, "no_credential"},
		{"one that was ended", ended, b.host, sshHello, "no_credential"}, {"of another tool", tool, b.host, sshHello, "no_credential"},
		{"of a task that is paused", paused, b.host, sshHello, "no_credential"}, {"another port", mine, name + ":22", sshHello, "no_credential"},
		{"another host", mine, "web-2.example.com:22", sshHello, "no_credential"}, {"mail", mine, b.host, "STARTTLS\r\n", "not_ssh"},
		{"an old version", mine, b.host, "SSH-1.5-x\r\n", "not_ssh"}, {"nothing behind the version", mine, b.host, "SSH-2.0-\r\n", "not_ssh"},
		{"a line before it", mine, b.host, "S\r\n" + sshHello, "not_ssh"}, {"control characters", mine, b.host, "SSH-2.0-a\x00b\r\n", "not_ssh"},
		{"a long line", mine, b.host, "SSH-2.0-" + strings.Repeat("x", 300) + "\r\n", "not_ssh"}, {"a proxy's request", mine, b.host, "GET / HTTP/1.1\r\n\r\n", "not_tls"},
	} {
		conn, in := open(t, c.x, c.host, c.say)
		if said := ends(t, conn, in); said != "" {
			t.Errorf("%s: %q", c.what, said)
		}
		until(t, c.what+" is in the audit log", func() bool { return len(b.uses(t, c.x.s.Task.ID)) > seen[c.x] })
		uses := b.uses(t, c.x.s.Task.ID)
		seen[c.x] = len(uses)
		if len(uses) == 0 || uses[len(uses)-1].Kind != audit.EgressDenied || !strings.Contains(string(uses[len(uses)-1].Data), `"`+c.reason+`"`) {
			t.Errorf("%s: in the audit log: %+v", c.what, uses)
		}
	}
	if len(b.accepted) > 0 {
		t.Error("the host was dialled")
	}
	_, in := open(t, mine, b.host, sshHello)
	if line, err := in.ReadString('\n'); err != nil || line != sshServer {
		t.Errorf("their twin: %q, %v", line, err)
	}
}

// Data of a server that is not SSH does not reach the sandbox.
//
//ebb:invariant I6 An SSH connection is relayed only if it begins with an SSH identification line, and the host is not dialled before that line
func TestPipeServers(t *testing.T) {
	t.Parallel()
	for _, greeting := range []string{"220 mail.example.com ESMTP\r\n" + strings.Repeat("x\r\n", 4096), "SSH-1.5-old\r\n" + strings.Repeat("y", 9000), "SSH-2.0-\x01\r\n", strings.Repeat("z", 9000)} {
		b := newPipeBed(t, greeting)
		x, _ := b.sshBox(t, "ssh:web/deploy:login")
		c, in := open(t, x, b.host, sshHello)
		if said := ends(t, c, in); said != "" {
			t.Errorf("%.20q is passed on: %q", greeting, said)
		}
	}
}

// E100: the end of the lease, a pause, the end of the task and doubt disconnect running
// connections, also to the host; the audit log records it.
//
//ebb:invariant I2 The egress proxy disconnects an SSH connection when its lease or task ends or its task is paused
func TestPipeIsCut(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *pipeBed, task, lease string) error{
		"lease": func(b *pipeBed, _, lease string) error {
			_, err := b.Broker.RevokeLease(t.Context(), b.Principals[brokertest.Operator], lease, "test")
			return err
		},
		"pause": func(b *pipeBed, task, _ string) error {
			_, err := b.Broker.PauseTask(t.Context(), b.Principals[brokertest.Runner], task, "test")
			return err
		},
		"task": func(b *pipeBed, task, _ string) error {
			_, err := b.Broker.CompleteTask(t.Context(), b.Principals[brokertest.Runner], task, 0)
			return err
		},
		"doubt": func(b *pipeBed, _, _ string) error { b.proxy.Doubt(); return nil },
	} {
		b := newPipeBed(t, sshServer)
		x, lease := b.sshBox(t, "ssh:web/deploy:login")
		c, in := open(t, x, b.host, sshHello)
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		up := <-b.accepted
		if err := end(b, x.s.Task.ID, lease); err != nil {
			t.Fatal(name, err)
		}
		ends(t, c, in)
		ends(t, up, up)
		b.isCut(t, x)
	}
}

// A disconnection waits neither for a sandbox that does not read an endless stream of the server,
// nor for a server that does not read the data of the sandbox.
func TestPipeThatIsNotReadIsCut(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"box", "server"} {
		b := newPipeBed(t, sshServer)
		x, lease := b.sshBox(t, "ssh:web/deploy:login")
		c, in := open(t, x, b.host, sshHello)
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		up := <-b.accepted
		says, deaf := c, up
		if by == "box" {
			says, deaf = up, c
		}
		over := make(chan struct{})
		var said atomic.Int64
		go func() {
			defer close(over)
			for big := make([]byte, 64<<10); ; {
				n, err := says.Write(big)
				if said.Add(int64(n)); err != nil {
					return
				}
			}
		}()
		before, still := int64(-1), time.Now()
		until(t, "ebb waits for the "+by, func() bool {
			now := said.Load()
			if now != before {
				before, still = now, time.Now()
			}
			return now > 0 && time.Since(still) > 300*time.Millisecond
		})
		b.revoke(t, lease)
		select {
		case <-over:
		case <-time.After(time.Minute):
			t.Fatalf("what a %s does not read is said on", by)
		}
		b.isCut(t, x) // while neither side reads
		ends(t, deaf, deaf)
	}
}

// A pause above the caller's task disconnects as well, and the audit log records it.
//
//ebb:invariant I2 The egress proxy disconnects an SSH connection when its lease or task ends or its task is paused
func TestPipeIsCutFromAbove(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	spec := brokertest.Spec()
	spec.Ceiling, spec.Delegation = scopes.MustParseSet("ssh:**:*"), &broker.Delegation{Expect: broker.Expect{Attestor: "enroll"}, Depth: 1}
	top := b.Open(t, spec)
	s := top.Delegate(t, broker.DelegationSpec{Ceiling: scopes.MustParseSet("ssh:**:*")})
	opened, err := b.sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, broker.EgressEndpointSpec{})
	if err != nil {
		t.Fatal(err)
	}
	x := &sandbox{b: b.bed, s: s, pem: opened.CA, socket: opened.Socket}
	b.certify(t, s, "ssh:web/deploy:login", "")
	c, in := open(t, x, b.host, sshHello)
	if line, err := in.ReadString('\n'); err != nil || line != sshServer {
		t.Fatalf("%q, %v", line, err)
	}
	up := <-b.accepted
	if _, err := b.Broker.PauseTask(t.Context(), b.Principals[brokertest.Operator], top.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	ends(t, c, in)
	ends(t, up, up)
	b.isCut(t, x)
}

// The end of the server's data ends the connection, also of a server that does not read: no data of
// the sandbox is kept for it.
//
//ebb:invariant I12 An SSH connection ends, which frees its slot, as soon as the server ends its side
func TestPipeEndsWithItsServer(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	x, _ := b.sshBox(t, "ssh:web/deploy:login")
	c, in := open(t, x, b.host, sshHello)
	if line, err := in.ReadString('\n'); err != nil || line != sshServer {
		t.Fatalf("%q, %v", line, err)
	}
	up := (<-b.accepted).(*net.TCPConn)
	defer func() { _ = up.Close() }() // not earlier, by a finalizer
	full := make(chan struct{})
	go func() { // until the proxy waits for the server, which never reads
		defer close(full)
		_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
		for big := make([]byte, 1<<20); ; {
			if _, err := c.Write(big); err != nil {
				return
			}
		}
	}()
	<-full
	if err := up.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	ends(t, c, in)
	until(t, "its end is in the audit log", func() bool { return len(b.uses(t, x.s.Task.ID)) == 2 })
}

// isDenied checks that the audit log has a refused connection of a sandbox, with a reason.
func (b *pipeBed) isDenied(t *testing.T, x *sandbox, reason string) {
	t.Helper()
	until(t, reason+" is in the audit log", func() bool {
		return slices.ContainsFunc(b.uses(t, x.s.Task.ID), func(e audit.Entry) bool {
			return e.Kind == audit.EgressDenied && strings.Contains(string(e.Data), `"`+reason+`"`) && strings.Contains(string(e.Data), `"protocol":"ssh"`)
		})
	})
}

// isCut checks that the audit log has the one connection of a sandbox as disconnected.
func (b *pipeBed) isCut(t *testing.T, x *sandbox) {
	t.Helper()
	until(t, "its end is in the audit log", func() bool { return len(b.uses(t, x.s.Task.ID)) == 2 })
	if d := string(b.uses(t, x.s.Task.ID)[1].Data); !strings.Contains(d, `"cut":true`) || !strings.Contains(d, `"protocol":"ssh"`) {
		t.Error(d)
	}
}

// The broker is asked once: the expiry of the lease disconnects without it.
//
//ebb:invariant I2 The egress proxy disconnects an SSH connection when the last of the leases that were live at its start expires
func TestPipeIsCutByTime(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	var ahead atomic.Int64
	b.with(t, func(c *egress.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	x, id := b.sshBox(t, "ssh:web/deploy:login")
	leases, err := b.Broker.Leases(t.Context(), b.Principals[brokertest.Operator], broker.LeaseFilter{TaskID: x.s.Task.ID})
	if err != nil || len(leases) != 1 || leases[0].ID != id {
		t.Fatal(leases, err)
	}
	ahead.Store(int64(time.Until(leases[0].ExpiresAt) - 25*time.Second)) // remaining validity: enough to begin
	c, in := open(t, x, b.host, sshHello)
	if said := ends(t, c, in); said != sshServer {
		t.Fatalf("%q", said)
	}
	up := <-b.accepted
	ends(t, up, up)
	b.isCut(t, x)
}

// E107: a connection sends no more than a request or a task may, including its first line, and the
// audit log has the reason. No connection of a task that has sent its maximum is dialled.
//
//ebb:invariant I2 An SSH connection sends no more bytes than the limits of a request and of a task allow
func TestPipeBounds(t *testing.T) {
	t.Parallel()
	for what, bound := range map[string]func(*egress.Config){
		"a connection": func(c *egress.Config) { c.RequestBytes = 1000 }, "a task": func(c *egress.Config) { c.TaskBytes = 1000 },
	} {
		b := newPipeBed(t, sshServer)
		b.with(t, bound)
		x, _ := b.sshBox(t, "ssh:web/deploy:login")
		c, in := open(t, x, b.host, sshHello)
		up := <-b.accepted
		if _, err := io.WriteString(c, strings.Repeat("x", 1000-len(sshHello))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(up, make([]byte, 1000)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		_, _ = io.WriteString(c, "x")
		ends(t, c, in)
		if got := ends(t, up, up); got != "" {
			t.Errorf("%s: %d bytes more were sent", what, len(got))
		}
		until(t, what+": its end is in the audit log", func() bool { return len(b.uses(t, x.s.Task.ID)) == 2 })
		if d := string(b.uses(t, x.s.Task.ID)[1].Data); !strings.Contains(d, `"too_much"`) {
			t.Errorf("%s: %s", what, d)
		}
		if c, in = open(t, x, b.host, sshHello); what == "a connection" { // of a task that may continue
			if line, err := in.ReadString('\n'); err != nil || line != sshServer {
				t.Errorf("the next one: %q, %v", line, err)
			}
			continue
		}
		if said := ends(t, c, in); said != "" || len(b.accepted) > 0 {
			t.Errorf("%s: the next one: %q", what, said)
		}
		b.isDenied(t, x, "too_much")
	}
}

// Connections are subject to the rules of requests: no private address, a limited number per
// minute, and nothing without an audit log entry.
func TestPipeByTheRules(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer, func(c *brokertest.Config) { c.Limits.UsesPerMinute = 3 })
	rules := b.proxy
	b.with(t, func(c *egress.Config) { c.Dialer = &egress.Dialer{Resolver: b.names} })
	x, _ := b.sshBox(t, "ssh:web/deploy:login")
	b.proxy = rules
	c, in := open(t, x, b.host, sshHello)
	if said := ends(t, c, in); said != "" {
		t.Errorf("%q", said)
	}
	until(t, "its end is in the audit log", func() bool { return len(b.uses(t, x.s.Task.ID)) == 2 })
	if d := string(b.uses(t, x.s.Task.ID)[1].Data); !strings.Contains(d, `"self"`) || len(b.accepted) > 0 {
		t.Errorf("an address of this machine: %s", d)
	}
	b.with(t, func(*egress.Config) {})
	x, _ = b.sshBox(t, "ssh:web/deploy:login")
	for i, want := range []string{sshServer, sshServer, sshServer, ""} {
		_, in := open(t, x, b.host, sshHello)
		if line, _ := in.ReadString('\n'); line != want {
			t.Fatalf("connection %d: %q", i, line)
		}
		if want != "" {
			<-b.accepted
		}
	}
	b.isDenied(t, x, "rate_limited")
	x, _ = b.sshBox(t, "ssh:web/deploy:login")
	_, in = open(t, x, b.host, sshHello)
	if line, err := in.ReadString('\n'); err != nil || line != sshServer {
		t.Fatalf("%q, %v", line, err)
	}
	<-b.accepted
	if err := b.Store.Close(); err != nil {
		t.Fatal(err)
	}
	c, in = open(t, x, b.host, sshHello)
	if said := ends(t, c, in); said != "" || len(b.accepted) > 0 {
		t.Errorf("without a record: %q", said)
	}
}

// The final check is of the lease itself, however it was found.
//
//ebb:invariant I2 The egress proxy relays an SSH connection only under a live lease of the same task and tool that covers the host
func TestReachAsksTheLease(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	mine, lease := b.sshBox(t, "ssh:web/deploy:login")
	other, _ := b.sshBox(t, "")
	at, err := stricturl.ParseHost(b.host, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x    *sandbox
		host stricturl.Host
		may  bool
	}{{mine, at, true}, {other, at, false}, {mine, stricturl.Host{Name: "web-2.example.com", Port: 22}, false}} {
		if _, err := b.Broker.Reach(t.Context(), broker.Caller{TaskID: c.x.s.Task.ID}, lease, c.host); (err == nil) != c.may {
			t.Errorf("%s: %v", c.host, err)
		}
	}
}
