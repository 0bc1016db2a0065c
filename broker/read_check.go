package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// checkedPoints is how many of the last checkpoints CheckRecord looks at.
const checkedPoints = 5

// Checked is what CheckRecord found.
type Checked struct {
	Report audit.Report
	Fault  *audit.Fault // nil: what was looked at holds together
	All    bool         // the whole record was looked at
}

// ownKeys are the published keys and those that this process knew at its start, forgotten ones included.
func (b *Broker) ownKeys() (jose.KeySet, error) {
	published, err := jose.ParseJWKS(b.cfg.Keys.JWKS(b.now()))
	if err != nil {
		return jose.KeySet{}, err
	}
	all := published.Keys()
	for _, k := range b.cfg.KnownKeys.Keys() {
		if !slices.ContainsFunc(all, func(o jose.Key) bool { return o.KID == k.KID }) {
			all = append(all, k)
		}
	}
	return jose.NewKeySet(all...)
}

// CheckRecord verifies the last n (1..1000) entries of the record and the last
// checkpoints, as `ebb audit verify` does with an export. It is this ebb that says so:
// who does not trust it verifies an export elsewhere.
func (b *Broker) CheckRecord(ctx context.Context, who Principal, n int) (Checked, error) {
	points, err := b.Checkpoints(ctx, who) // before the entries, or one may be ahead of them
	if err != nil {
		return Checked{}, err
	}
	// All of it: what is hidden from who is checked, too, and not shown.
	s, err := b.cfg.Journal.EntryList(ctx, EntryQuery{Limit: n, Look: n + 1})
	if err != nil {
		return Checked{}, unavailable(err)
	}
	keys, err := b.ownKeys()
	if err != nil {
		return Checked{}, err
	}
	var lines bytes.Buffer
	known := map[string]bool{}
	out := json.NewEncoder(&lines)
	slices.Reverse(s.Entries)
	for _, e := range s.Entries {
		known[e.Writer] = true
		if err := out.Encode(e); err != nil {
			return Checked{}, err
		}
	}
	for _, p := range points[max(0, len(points)-checkedPoints):] {
		// Of chains that are older than what is looked at it says nothing here.
		for writer := range p.Heads {
			if s.More && !known[writer] {
				p.JWS = ""
			}
		}
		if p.JWS == "" {
			continue
		}
		if err := out.Encode(map[string]audit.Checkpoint{"checkpoint": p}); err != nil {
			return Checked{}, err
		}
	}
	report, err := audit.Verify(&lines, keys)
	done := Checked{Report: report, All: !s.More}
	if fault, is := errors.AsType[*audit.Fault](err); is {
		done.Fault, err = fault, nil
	}
	return done, err
}
