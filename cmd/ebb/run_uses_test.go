package main

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/wire"
)

func record(entries ...wire.AuditEntry) iter.Seq2[wire.AuditEntry, error] {
	return func(yield func(wire.AuditEntry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func entry(kind, lease, data string) wire.AuditEntry {
	return wire.AuditEntry{Kind: kind, LeaseID: lease, Data: []byte(data)}
}

// TestTally: uses are counted from the audit log, by leases of the task. A
// lease ID that the sandbox does not have counts as none.
func TestTally(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"lse_1": true, "lse_2": true, "lse_3": true}
	u, err := tally(record(
		entry(audit.EgressAllowed, "lse_1", `{}`), entry(audit.EgressCompleted, "lse_1", `{"status":200,"sent_bytes":10,"received_bytes":2048,"redacted":1}`),
		entry(audit.EgressAllowed, "lse_1", `{}`), entry(audit.EgressCompleted, "lse_1", `{"sent_bytes":5,"received_bytes":1,"cut":true}`),
		entry(audit.EgressDenied, "lse_1", `{"reason":"x","left_out":40}`), entry(audit.EgressDenied, "lse_of_another", `{}`), entry(audit.EgressDenied, "", `{}`),
		entry("egress.later", "lse_2", `{}`),
		entry(audit.EgressAllowed, "lse_3", `{"protocol":"postgresql"}`), entry(audit.EgressStatement, "lse_3", `{}`), entry(audit.EgressStatement, "lse_3", `{}`), entry(audit.EgressCompleted, "lse_3", `{}`),
	), known)
	if err != nil || !u.settled() || u.more {
		t.Errorf("%+v, %v", u, err)
	}
	for id, want := range map[string]string{
		"lse_1": "2 request(s), 1 denied, 15 B sent, 2.0 KiB received, its secret was redacted in responses 1 time(s)", "lse_2": "not used", "lse_3": "1 request(s), 2 statement(s) that may change something, 0 B sent, 0 B received", "": "0 request(s), 42 denied", "lse_of_another": "not used",
	} {
		if got := u.of[id].line("request(s)"); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	if u, _ := tally(record(entry(audit.EgressAllowed, "lse_1", `{}`)), known); u.settled() {
		t.Error("what is under way is taken for over")
	}
	if _, err := tally(record(entry(audit.EgressAllowed, "lse_1", `[`)), known); err == nil {
		t.Error("an entry that cannot be read counts for nothing")
	}
	gone := errors.New("gone")
	if _, err := tally(func(yield func(wire.AuditEntry, error) bool) { yield(wire.AuditEntry{}, gone) }, known); !errors.Is(err, gone) {
		t.Errorf("a record that breaks off: %v", err)
	}
	many := make([]wire.AuditEntry, maxUses+1)
	for i := range many {
		many[i] = entry(audit.EgressAllowed, "lse_1", `{}`)
	}
	if u, err := tally(record(many...), known); err != nil || !u.more || u.of["lse_1"].requests != maxUses || !u.settled() {
		t.Errorf("more than is read: %+v, %v", u, err)
	}
}

// TestUsed: for a credential delivered as a token only the uses in the audit
// log are printed.
func TestUsed(t *testing.T) {
	t.Parallel()
	u, err := tally(record(entry(audit.EgressAllowed, "lse_1", `{"protocol":"ssh"}`), entry(audit.EgressCompleted, "lse_1", `{"protocol":"ssh","sent_bytes":10,"received_bytes":20}`)), map[string]bool{"lse_1": true})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		id, delivery string
		err          error
		want         string
	}{
		"a certificate whose connection was carried": {"lse_1", policy.DeliveryToken, nil, "  1 SSH connection(s), 10 B sent, 20 B received"},
		"a token":                {"lse_2", policy.DeliveryToken, nil, ""},
		"one that stays in ebb":  {"lse_2", policy.DeliveryEgress, nil, "  not used"},
		"what could not be read": {"lse_1", policy.DeliveryToken, errors.New("gone"), ""},
	} {
		if got := used(wire.Lease{ID: c.id, Delivery: c.delivery}, u, c.err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, n := range []int64{0, 1023, 1024, 1 << 20, 5 << 29, 1 << 62} {
		fmt.Fprint(&got, size(n), " ")
	}
	if want := "0 B 1023 B 1.0 KiB 1.0 MiB 2.5 GiB 4194304.0 TiB "; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
}
