package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/web/client"
)

// use is what went through egress with one credential, as the record has it.
type use struct {
	requests, ended int64
	denied          int64
	sent, received  int64 // bytes of bodies, both of what has ended
	redacted        int64 // secrets that came back
}

// uses are those of a task's credentials, by their leases; "" = denied requests that named none.
type uses struct {
	of   map[string]*use
	more bool // there are more on the record than were read
}

// Bounds of what is read of the record when a task is over.
const (
	maxUses      = 10_000 // entries
	usesPatience = 5 * time.Second
)

// tally counts entries of egress. A denied request names what its sandbox liked: what is no lease
// of known counts as none.
func tally(entries iter.Seq2[audit.Entry, error], known map[string]bool) (uses, error) {
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
			return u, fmt.Errorf("an entry of the record: %w", err)
		}
		id := e.LeaseID
		if !known[id] {
			id = ""
		}
		switch e.Kind {
		case audit.EgressAllowed:
			u.at(id).requests++
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

// settled reports whether of all that left it is known how it ended.
func (u uses) settled() bool {
	for _, n := range u.of {
		if n.ended < n.requests {
			return u.more
		}
	}
	return true
}

// usesOf reads what a task that is over has used. What was under way at its end is cut, and on the
// record a moment later.
func (c *cli) usesOf(ctx context.Context, o *client.Operator, done broker.Completion) (uses, error) {
	ctx, cancel := context.WithTimeout(ctx, usesPatience)
	defer cancel()
	known := map[string]bool{}
	for _, l := range done.Credentials {
		known[l.ID] = true
	}
	for {
		u, err := tally(o.Audit(ctx, broker.EntryFilter{TaskID: done.Task.ID, Kind: "egress.", Limit: maxUses + 1}), known)
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

// line is what a person is told of a credential, and of what went through with it.
func (n *use) line(what string) string {
	if n == nil || n.requests+n.denied == 0 {
		return "not used"
	}
	parts := []string{fmt.Sprintf("%d %s", n.requests, what)}
	if n.denied > 0 {
		parts = append(parts, fmt.Sprintf("%d denied", n.denied))
	}
	if n.ended > 0 {
		parts = append(parts, size(n.sent)+" sent", size(n.received)+" received")
	}
	if n.redacted > 0 {
		parts = append(parts, fmt.Sprintf("%d time(s) its secret came back and was blacked out", n.redacted))
	}
	return strings.Join(parts, ", ")
}

// size is a number of bytes for people, in powers of 1024.
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

// sayUses says what there is beyond the credentials that are listed.
func (c *cli) sayUses(u uses) {
	if n := u.of[""]; n != nil && cmp.Or(n.denied, n.requests) > 0 {
		c.sayf("ebb:   without a credential that is listed: %s\n", n.line("request(s)"))
	}
	if u.more {
		c.sayf("ebb:   and more: these are the first %d entries of `ebb audit list`\n", maxUses)
	}
}
