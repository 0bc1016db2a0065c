package egress_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// judged counts the connections that were checked against a lease. With down, no lease can be checked.
type judged struct {
	egress.Hosts
	n    atomic.Int64
	down atomic.Bool
}

// MayHaveReached implements egress.Hosts.
func (j *judged) MayHaveReached(ctx context.Context, leaseID string) (func(broker.Caller, stricturl.Host) bool, error) {
	if j.down.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	in, err := j.Hosts.MayHaveReached(context.WithoutCancel(ctx), leaseID)
	return func(c broker.Caller, h stricturl.Host) bool {
		defer j.n.Add(1)
		return in(c, h)
	}, err
}

// judge counts the checked connections of sandboxes that are made from here on.
func (b *pipeBed) judge(t *testing.T, change func(*egress.Config)) *judged {
	t.Helper()
	j := &judged{Hosts: b.Broker}
	b.with(t, func(c *egress.Config) { c.Hosts = j; change(c) })
	b.sandboxes = b.openEndpoints(t, broker.EndpointBySocket)
	b.Broker.Cut(sure{b.sandboxes})
	return j
}

// lasting requests a certificate of a given lifetime for a sandbox.
func (b *pipeBed) lasting(t *testing.T, x *sandbox, ttl time.Duration) string {
	t.Helper()
	r := x.s.Request(t, "ssh:web/deploy:login")
	r.PublicKey, r.TTL = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHYyHV3nvHFh0Q7M2j+LzrGVlkFEJA/Ld+eCrZEr3ueC", ttl
	tok, err := b.Broker.Token(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return tok.LeaseID
}

// connection is an SSH connection in which both sides have sent their identification.
type connection struct {
	c, up net.Conn
	in    *bufio.Reader
}

func (b *pipeBed) connect(t *testing.T, x *sandbox) connection {
	t.Helper()
	c, in := open(t, x, b.host, sshHello)
	if line, err := in.ReadString('\n'); err != nil || line != sshServer {
		t.Fatalf("%q, %v", line, err)
	}
	up := <-b.accepted
	t.Cleanup(func() { _ = up.Close() })
	if _, err := io.ReadFull(up, make([]byte, len(sshHello))); err != nil {
		t.Fatal(err)
	}
	return connection{c, up, in}
}

// goesOn checks that data gets from one side to the other.
func (c connection) goesOn(t *testing.T, what string) {
	t.Helper()
	_ = c.up.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c.c, "alive"); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if got := make([]byte, 5); true {
		if _, err := io.ReadFull(c.up, got); err != nil || string(got) != "alive" {
			t.Fatalf("%s: %q, %v", what, got, err)
		}
	}
}

func (b *pipeBed) revoke(t *testing.T, lease string) {
	t.Helper()
	if _, err := b.Broker.RevokeLease(t.Context(), b.Principals[brokertest.Operator], lease, "test"); err != nil {
		t.Fatal(err)
	}
}

// Only the host knows which of several certificates the sandbox logged in with. So the revocation
// of any of them disconnects, including one that was issued after the connection was opened.
//
//ebb:invariant I2 The revocation of any lease that may have opened an SSH connection disconnects that connection, even if the lease was issued after the connection began
func TestPipeIsCutByEachLease(t *testing.T) {
	t.Parallel()
	for i, which := range []string{"the oldest", "the newest but one", "the newest", "one that was issued meanwhile"} {
		b := newPipeBed(t, sshServer)
		x, first := b.sshBox(t, "ssh:web/deploy:login")
		leases := []string{first, b.lasting(t, x, 0), b.lasting(t, x, 0)}
		c := b.connect(t, x)
		leases = append(leases, b.lasting(t, x, 0))
		c.goesOn(t, which)
		b.revoke(t, leases[i])
		ends(t, c.c, c.in)
		ends(t, c.up, c.up)
		b.isCut(t, x)
	}
}

// The end of a lease that cannot have opened a connection does not disconnect it.
//
//ebb:invariant I2 The end of a lease that cannot have opened an SSH connection leaves that connection open
func TestPipeIsNotCutByOthers(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	j := b.judge(t, func(*egress.Config) {})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("ssh:**:* stripe:**:*")
	s := b.Open(t, spec)
	opened, err := b.sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, broker.EgressEndpointSpec{Tool: "git"})
	if err != nil {
		t.Fatal(err)
	}
	x := &sandbox{b: b.bed, s: s, pem: opened.CA, socket: opened.Socket}
	b.certify(t, s, "ssh:web/deploy:login", "git")
	other, others := b.sshBox(t, "ssh:web/deploy:login")
	charge, err := s.Ask(t, "stripe:charges:read")
	if err != nil {
		t.Fatal(err)
	}
	c, theirs := b.connect(t, x), b.connect(t, other)
	for i, lease := range []string{b.certify(t, s, "ssh:mail/deploy:login", "git"), charge.LeaseID} {
		b.revoke(t, lease)
		until(t, "its end is judged", func() bool { return j.n.Load() == int64(i+1) })
		c.goesOn(t, "another host, another kind")
	}
	b.revoke(t, others)
	ends(t, theirs.c, theirs.in)
	c.goesOn(t, "of another task")
	b.revoke(t, b.certify(t, s, "ssh:web/deploy:login", "deployer")) // which could have given its key to this one
	ends(t, c.c, c.in)
	b.isCut(t, x)
}

// If it is unknown whether a lease may have opened a connection, the connection is disconnected.
//
//ebb:invariant I2 The egress proxy disconnects an SSH connection when it cannot determine whether a revoked lease may have opened that connection
func TestPipeIsCutInDoubt(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	j := b.judge(t, func(*egress.Config) {})
	x, _ := b.sshBox(t, "ssh:web/deploy:login")
	c := b.connect(t, x)
	j.down.Store(true)
	b.revoke(t, b.certify(t, x.s, "ssh:mail/deploy:login", ""))
	ends(t, c.c, c.in)
	b.isCut(t, x)
}

// The expiry of a lease ends nothing while another lease is valid that existed when the connection
// began, whichever is newer. The expiry of the last one disconnects.
//
//ebb:invariant I2 The egress proxy disconnects an SSH connection when the last of the leases that were live at its start expires
func TestPipeLivesByTheLastLease(t *testing.T) {
	t.Parallel()
	for what, ttl := range map[string][2]time.Duration{"the older lasts": {10 * time.Minute, time.Minute}, "the newer lasts": {time.Minute, 10 * time.Minute}} {
		b := newPipeBed(t, sshServer)
		b.judge(t, func(c *egress.Config) { // the first has expired, the last has some seconds
			c.Now = func() time.Time { return time.Now().Add(10*time.Minute - 20*time.Second) }
		})
		x, _ := b.sshBox(t, "")
		b.lasting(t, x, ttl[0])
		b.lasting(t, x, ttl[1])
		c := b.connect(t, x)
		c.goesOn(t, what)
		ends(t, c.c, c.in)
		ends(t, c.up, c.up)
		b.isCut(t, x)
		b.lasting(t, x, 20*time.Minute)
		b.connect(t, x).goesOn(t, what)
	}
}

// An expired lease is settled without a call of MayHaveOpened.
func TestPipeOutlivesALease(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	j := b.judge(t, func(*egress.Config) {})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Broker.Run(ctx) })
	defer func() { stop(); wg.Wait() }()
	x, _ := b.sshBox(t, "")
	b.lasting(t, x, 10*time.Minute)
	short := b.lasting(t, x, time.Minute)
	c := b.connect(t, x)
	b.Clock.Add(2 * time.Minute)
	until(t, "its end is settled", func() bool {
		ls, err := b.Broker.Leases(t.Context(), b.Principals[brokertest.Operator], broker.LeaseFilter{TaskID: x.s.Task.ID})
		return err == nil && slices.ContainsFunc(ls, func(l broker.Lease) bool { return l.ID == short && l.State == broker.LeaseExpired })
	})
	if c.goesOn(t, "one of two has had its time"); j.n.Load() > 0 {
		t.Error("a lease that had its time was judged")
	}
}
