package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// Bounds of reading the audit log after a task has ended.
const (
	maxUses      = 10_000 // entries
	usesPatience = 5 * time.Second
)

// used describes the use of one credential. For one that was delivered as a
// token ebb knows only the SSH connections through egress.
func used(l wire.Lease, u uses, err error) string {
	n, handedOut := u.of[l.ID], l.Delivery == wire.DeliveryToken
	switch {
	case err != nil, handedOut && n == nil:
		return ""
	case handedOut:
		return "  " + n.line("SSH connection(s)")
	}
	return "  " + n.line("request(s)")
}

// use is the traffic through egress with one credential, from the audit log.
type use struct {
	requests, ended int64
	statements      int64 // of database sessions that may have changed something
	denied          int64
	sent, received  int64 // bytes of the bodies of completed requests
	redacted        int64 // secrets redacted in responses
}

// uses are the uses of a task's credentials by lease ID; "" = denied requests
// without a known lease.
type uses struct {
	of   map[string]*use
	more bool // the audit log has more entries than were read
}

// tally counts audit entries of egress. The lease ID of a denied request comes
// from the sandbox, so one that is not in known counts as "".
func tally(entries iter.Seq2[wire.AuditEntry, error], known map[string]bool) (uses, error) {
	u := uses{of: map[string]*use{}}
	read := 0
	for e, err := range entries {
		if err != nil {
			return u, err
		}
		if read++; read > maxUses {
			u.more = true
			break
		}
		var x struct {
			broker.Exchange
			LeftOut int64 `json:"left_out"`
		}
		if err := json.Unmarshal(e.Data, &x); err != nil {
			return u, fmt.Errorf("parse an audit entry: %w", err)
		}
		id := e.LeaseID
		if !known[id] {
			id = ""
		}
		switch e.Kind {
		case audit.EgressAllowed:
			u.at(id).requests++
		case audit.EgressStatement:
			u.at(id).statements++
		case audit.EgressCompleted:
			n := u.at(id)
			n.ended, n.sent, n.received, n.redacted = n.ended+1, n.sent+x.Sent, n.received+x.Received, n.redacted+x.Redacted
		case audit.EgressDenied:
			u.at(id).denied++
			if x.LeftOut > 0 {
				u.at("").denied += x.LeftOut
			}
		}
	}
	return u, nil
}

func (u uses) at(id string) *use {
	if u.of[id] == nil {
		u.of[id] = &use{}
	}
	return u.of[id]
}

// settled reports whether every allowed request is completed, or not all
// entries were read.
func (u uses) settled() bool {
	for _, n := range u.of {
		if n.ended < n.requests {
			return u.more
		}
	}
	return true
}

// usesOf reads the uses of an ended task. Requests that were running when it
// ended are cut off, and their audit entries follow shortly after.
func (c runReport) usesOf(ctx context.Context, o *client.Operator, done wire.Completion) (uses, error) {
	ctx, cancel := context.WithTimeout(ctx, usesPatience)
	defer cancel()
	known := map[string]bool{}
	for _, l := range done.Credentials {
		known[l.ID] = true
	}
	for {
		u, err := tally(o.Audit.Entries(ctx, client.EntryFilter{TaskID: done.Task.ID, Kind: "egress.", Limit: maxUses + 1}), known)
		if err != nil || u.settled() {
			return u, err
		}
		select {
		case <-ctx.Done():
			return u, nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// line describes the use of one credential.
func (n *use) line(what string) string {
	if n == nil || n.requests+n.denied == 0 {
		return "not used"
	}
	parts := []string{fmt.Sprintf("%d %s", n.requests, what)}
	if n.statements > 0 {
		parts = append(parts, fmt.Sprintf("%d statement(s) that may change something", n.statements))
	}
	if n.denied > 0 {
		parts = append(parts, fmt.Sprintf("%d denied", n.denied))
	}
	if n.ended > 0 {
		parts = append(parts, size(n.sent)+" sent", size(n.received)+" received")
	}
	if n.redacted > 0 {
		parts = append(parts, fmt.Sprintf("its secret was redacted in responses %d time(s)", n.redacted))
	}
	return strings.Join(parts, ", ")
}

// size formats a number of bytes in powers of 1024.
func size(n int64) string {
	unit, of := 0, float64(n)
	for ; of >= 1024 && unit < 4; unit++ {
		of /= 1024
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", of, " KMGT"[unit])
}

// sayUses prints the use that belongs to no listed credential.
func (c runReport) sayUses(u uses) {
	if n := u.of[""]; n != nil && cmp.Or(n.denied, n.requests) > 0 {
		c.sayf("ebb:   without a listed credential: %s\n", n.line("request(s)"))
	}
	if u.more {
		c.sayf("ebb:   counted are only the first %d entries of `ebb audit list`\n", maxUses)
	}
}
