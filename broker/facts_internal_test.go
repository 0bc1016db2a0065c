package broker

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

func someFacts(t testing.TB) FactSheet {
	t.Helper()
	set := func(s string) scopes.Set {
		out, err := scopes.ParseSet(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	return FactSheet{
		Request: "req_1", Scope: set("orders:eu/b:write"), Resource: "https://orders.example", Provider: "orders", Class: provider.ClassEventual, Bound: 60,
		TTL: 600, Reuse: 600, Binding: provider.Binding{JKT: "thumb"}, TaskID: "task_1", TaskName: "a & b", Owner: "ana", Runner: "ci",
		Labels: map[string]string{"env": "production"}, Deadline: time.Unix(2000, 0).UTC(), WouldAllow: set("orders:eu:read"),
		Rules: []string{"write"}, Ask: policy.Approval{Groups: []string{"leads"}, Quorum: 1, Rules: []policy.AskRule{{ID: "write", Groups: []string{"leads"}, Quorum: 1}}},
		ExpiresAt: time.Unix(1800, 5_000_000).UTC(),
	}
}

func sealed(t testing.TB, f FactSheet) Request {
	t.Helper()
	raw, digest, err := seal(f)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Facts: raw, Digest: digest}
}

// What is drawn is what the digest covers, also after a JSON encoder on the way has
// escaped the canonical bytes in its own manner.
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
	var far Request
	if err := json.Unmarshal(wire, &far); err != nil {
		t.Fatal(err)
	}
	if got, err := far.Sheet(); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

// A sheet that shows other than what is sealed is none.
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
			bad.Facts = Facts(facts)
			f, err := bad.Sheet()
			if err == nil || AsError(err).Kind != Conflict || f.Request != "" {
				t.Fatalf("%+v, %v", f, err)
			}
		})
	}
	bad := r
	bad.Digest = strings.Repeat("0", 64)
	if _, err := bad.Sheet(); !errors.Is(err, ErrStale) {
		t.Fatal(err)
	}
}

// What people were told is read whole or not at all: of facts that are damaged nothing
// weaker counts as agreed to.
func TestSeenOfDamagedFacts(t *testing.T) {
	for _, facts := range []string{`{"revocability":"ttl-only","ttl_seconds":"x"}`, `{"revocability":"eventual","revocation_bound":`, ``} {
		if got := seen(Request{Facts: Facts(facts)}); keeps(provider.Revocability{Class: provider.ClassEventual, Bound: time.Second}, got) {
			t.Errorf("%s: %+v", facts, got)
		}
	}
}
