package approval

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

func someFacts(t testing.TB) broker.FactSheet {
	t.Helper()
	set := func(s string) scopes.Set {
		out, err := scopes.ParseSet(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	return broker.FactSheet{
		Request: "req_1", Scope: set("orders:eu/b:write"), Resource: "https://orders.example", Provider: "orders", Class: provider.ClassEventual, Bound: 60,
		TTL: 600, Reuse: 600, Binding: provider.Binding{JKT: "thumb"}, TaskID: "task_1", TaskName: "a & b", Owner: "ana", Runner: "ci",
		Labels: map[string]string{"env": "production"}, Deadline: time.Unix(2000, 0).UTC(), WouldAllow: set("orders:eu:read"),
		Rules: []string{"write"}, Ask: policy.Approval{Groups: []string{"leads"}, Quorum: 1, Rules: []policy.AskRule{{ID: "write", Groups: []string{"leads"}, Quorum: 1}}},
		ExpiresAt: time.Unix(1800, 5_000_000).UTC(),
	}
}

func sealed(t testing.TB, f broker.FactSheet) broker.Request {
	t.Helper()
	raw, digest, err := broker.Seal(f)
	if err != nil {
		t.Fatal(err)
	}
	return broker.Request{Facts: raw, Digest: digest}
}

// The sheet equals the facts that the digest covers, even after a JSON encoder has escaped the
// canonical bytes in its own way.
func TestSheetIsWhatTheDigestCovers(t *testing.T) {
	want := someFacts(t)
	r := sealed(t, want)
	got, err := r.Sheet()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
	}
	wire, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var far broker.Request
	if err := json.Unmarshal(wire, &far); err != nil {
		t.Fatal(err)
	}
	if got, err := far.Sheet(); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

// Facts that the sheet would not show are refused.
func TestSheetRefusesWhatItWouldNotShow(t *testing.T) {
	r := sealed(t, someFacts(t))
	for name, facts := range map[string]string{
		"an unknown member": strings.Replace(string(r.Facts), `{`, `{"also":"admin",`, 1),
		"changed":           strings.Replace(string(r.Facts), `"ttl_seconds":600`, `"ttl_seconds":60`, 1),
		"cut":               string(r.Facts[:len(r.Facts)/2]),
		"two values":        string(r.Facts) + `{}`,
		"nothing":           "",
		"null":              "null",
		"not an object":     `["facts"]`,
	} {
		t.Run(name, func(t *testing.T) {
			bad := r
			bad.Facts = broker.Facts(facts)
			f, err := bad.Sheet()
			if err == nil || broker.AsError(err).Kind != broker.Conflict || f.Request != "" {
				t.Fatalf("%+v, %v", f, err)
			}
		})
	}
	bad := r
	bad.Digest = strings.Repeat("0", 64)
	if _, err := bad.Sheet(); !errors.Is(err, broker.ErrStale) {
		t.Fatal(err)
	}
}

// Facts are read as a whole or not at all: from damaged facts no weaker revocability counts as
// agreed to, and the approval is limited to a content that no request has.
func TestSeenOfDamagedFacts(t *testing.T) {
	for _, facts := range []string{`{"revocability":"ttl-only","ttl_seconds":"x"}`, `{"revocability":"eventual","revocation_bound":`, ``} {
		if got := seen(broker.Request{Facts: broker.Facts(facts)}); thirdparty.Keeps(provider.Revocability{Class: provider.ClassEventual, Bound: time.Second}, got) {
			t.Errorf("%s: %+v", facts, got)
		}
		if only := limitedTo(broker.Request{Facts: broker.Facts(facts)}); only == nil || only.Kind != "unreadable" {
			t.Errorf("%s: limited to %+v", facts, only)
		}
	}
}
