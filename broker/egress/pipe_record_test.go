package egress_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/egress"
	"ebb/broker/exact"
)

// unwritten is a record on which nothing is allowed.
type unwritten struct{ egress.Record }

func (unwritten) UseAllowed(context.Context, broker.Caller, broker.Usable, broker.Exchange) error {
	return errors.New("the disk is full")
}

// E111: what cannot be put on the record is not dialled, whatever else can be asked.
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

// reachAsked says when somebody asks by which lease a host is reached.
type reachAsked struct {
	egress.Hosts
	now chan struct{}
}

func (a reachAsked) LeaseTo(ctx context.Context, c broker.Caller, host exact.Host) (string, time.Time, error) {
	defer close(a.now)
	return a.Hosts.LeaseTo(ctx, c, host)
}

// One that is cut before it has said what it speaks is cut, which is no fault of the box's.
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
		t.Fatal("nobody asks by which lease it leaves")
	}
	b.proxy.End(x.s.Task.ID)
	until(t, "it is cut", func() bool {
		return slices.ContainsFunc(b.uses(t, x.s.Task.ID), func(e audit.Entry) bool {
			return e.Kind == audit.EgressDenied && strings.Contains(string(e.Data), `"cut":true`)
		})
	})
	if said := ends(t, c, in); said != "" {
		t.Errorf("%q", said)
	}
}
