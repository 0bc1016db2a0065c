package egress_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// reaching counts the queries for the lease of a connection.
type reaching struct {
	egress.Hosts
	asked atomic.Int64
}

// LeaseTo implements egress.Hosts.
func (r *reaching) LeaseTo(ctx context.Context, c broker.Caller, h stricturl.Host) (string, time.Time, error) {
	r.asked.Add(1)
	return r.Hosts.LeaseTo(ctx, c, h)
}

// denials records the reason of each refused SSH connection.
type denials struct {
	egress.Record
	mu  sync.Mutex
	all []string
}

// UseDenied implements egress.Record.
func (d *denials) UseDenied(ctx context.Context, c broker.Caller, leaseID string, x broker.Exchange) {
	if x.Protocol == "ssh" {
		d.mu.Lock()
		d.all = append(d.all, x.Reason)
		d.mu.Unlock()
	}
	d.Record.UseDenied(ctx, c, leaseID, x)
}

func (d *denials) have(reason string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, is := range d.all {
		if is == reason {
			n++
		}
	}
	return n
}

// A sandbox can open as many SSH connections as its task allows to hosts with a lease, and a
// limited number to other hosts. The limit affects neither the first kind nor its placeholders.
//
//ebb:invariant I12 The rate of SSH connections of a sandbox to hosts without a lease is limited
func TestPipesAskSeldom(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	asks, denied := &reaching{Hosts: b.Broker}, &denials{Record: b.Broker}
	b.with(t, func(c *egress.Config) { c.Hosts, c.Record = asks, denied })
	x, _ := b.sshBox(t, "ssh:web/deploy:login")
	own := func(times int) {
		t.Helper()
		for i := range times {
			c, in := open(t, x, b.host, sshHello)
			if line, err := in.ReadString('\n'); err != nil || line != sshServer {
				t.Fatalf("connection %d: %q, %v", i, line, err)
			}
			_ = (<-b.accepted).Close()
			ends(t, c, in)
		}
	}
	own(1)
	c := x.client(t, true)
	send(t, c, "GET", "https://web-2.example.com/", "") // new names have a limit of their own
	knocks := 0
	for ; denied.have("rate_limited") == 0; knocks++ {
		if knocks > 5000 || !knock(t, x) {
			t.Fatalf("%d knocks, %d questions", knocks, asks.asked.Load())
		}
	}
	if n := denied.have("no_credential"); n < 50 || n != knocks-1 || asks.asked.Load() != int64(knocks) {
		t.Errorf("%d questions for %d knocks", asks.asked.Load(), knocks)
	}
	p := x.placeholder(t, "stripe:charges:read")
	if res, body := send(t, c, "GET", "https://"+b.bed.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusOK {
		t.Errorf("a placeholder that is new: %d %s", res.StatusCode, body)
	}
	own(20)
}

// knock sends an SSH identification in a tunnel to a host without a lease, and waits for the end;
// false = there is no tunnel.
func knock(t *testing.T, x *sandbox) bool {
	t.Helper()
	c, err := net.Dial("unix", x.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "CONNECT web-2.example.com:22 HTTP/1.1\r\nHost: web-2.example.com:22\r\n\r\n"+sshHello); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	ends(t, c, in)
	return err == nil && strings.Contains(line, " 200 ")
}
