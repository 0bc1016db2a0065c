package egress_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// unwritten is an audit log that accepts no entry.
type unwritten struct{ egress.Record }

func (unwritten) UseAllowed(context.Context, broker.Caller, broker.Usable, broker.Exchange) error {
	return errors.New("the disk is full")
}

// E111: without an audit log entry nothing is dialled.
//
//ebb:invariant I2 The audit log has the entry of an SSH connection before the egress proxy dials the host
func TestPipeIsFirstOnTheRecord(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	b.with(t, func(c *egress.Config) { c.Record = unwritten{c.Record} })
	x, _ := b.sshBox(t, "ssh:web/deploy:login")
	c, in := open(t, x, b.host, sshHello)
	if said := ends(t, c, in); said != "" {
		t.Errorf("%q", said)
	}
	b.isDenied(t, x, "record_unavailable")
	if len(b.accepted) > 0 {
		t.Error("the host was dialled")
	}
}

// reachAsked reports when the lease for a host is queried.
type reachAsked struct {
	egress.Hosts
	now chan struct{}
}

func (a reachAsked) LeaseTo(ctx context.Context, c broker.Caller, host stricturl.Host) (string, time.Time, error) {
	defer close(a.now)
	return a.Hosts.LeaseTo(ctx, c, host)
}

// A connection that is disconnected before it identifies its protocol is recorded as disconnected,
// and not as a fault of the sandbox.
func TestPipeIsCutBeforeItSpeaks(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	now := make(chan struct{})
	b.with(t, func(c *egress.Config) { c.Hosts = reachAsked{c.Hosts, now} })
	x, _ := b.sshBox(t, "ssh:web/deploy:login")
	c, in := open(t, x, b.host, "SSH-")
	select {
	case <-now:
	case <-time.After(patience):
		t.Fatal("the lease for the host was not queried")
	}
	b.proxy.End(x.s.Task.ID)
	until(t, "it is disconnected", func() bool {
		return slices.ContainsFunc(b.uses(t, x.s.Task.ID), func(e audit.Entry) bool {
			return e.Kind == audit.EgressDenied && strings.Contains(string(e.Data), `"cut":true`)
		})
	})
	if said := ends(t, c, in); said != "" {
		t.Errorf("%q", said)
	}
}
