package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// proofsOf returns the member proofs of the newest entry of a kind about a
// request, and that entry.
func (h *fixture) proofsOf(kind, requestID string) (any, audit.Entry) {
	h.t.Helper()
	var last audit.Entry
	for e, err := range h.Store.Entries(h.t.Context(), broker.EntryFilter{Kind: kind, RequestID: requestID}) {
		if last = e; err != nil {
			h.t.Fatal(err)
		}
	}
	var data map[string]any
	if err := json.Unmarshal(last.Data, &data); err != nil {
		h.t.Fatalf("%s of %q: %q: %v", kind, requestID, last.Data, err)
	}
	return data["proofs"], last
}

// presence returns the expected member presence.
func presence(by string, at time.Time, acr string) map[string]any {
	out := map[string]any{"by": by, "proved_at": at.UTC().Format(time.RFC3339Nano)}
	if acr != "" {
		out["acr"] = acr
	}
	return out
}

// TestApprovalProofsAreRecorded: the entry of an approval lists each of its
// proofs, for every way to approve: the typed name, and the means and time of
// the proof of identity.
//
//ebb:invariant I11 The audit log entry of an approval names the proofs that the approver gave, such as the typed target and the presence check
func TestApprovalProofsAreRecorded(t *testing.T) {
	t.Parallel()
	h, rs := ofEach(t, proof.Friction{})
	began := h.Clock.Now().Truncate(time.Second) // a link has its time in whole seconds
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	low, medium, high := rs[risk.Low], rs[risk.Medium], rs[risk.High]
	check := func(name, requestID string, want any) {
		t.Helper()
		if got, _ := h.proofsOf(audit.RequestVoted, requestID); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the entry has proofs %v, want %v", name, got, want)
		}
	}
	h.Clock.Add(time.Minute)
	b.choose(b.get("/requests/"+high.ID), high.ID, "narrow", url.Values{"scope": {high.Scopes.String()}, "minutes": {"1"}, "target": {high.Target()}}).is(t, http.StatusSeeOther)
	check("a link", high.ID, map[string]any{"target": high.Target(), "presence": presence("link", began, "")})

	a.register(b).is(t, http.StatusSeeOther)
	h.Clock.Add(11 * time.Minute) // the sign-in is too old
	a.approves(b, medium, "approve", nil).is(t, http.StatusSeeOther)
	signed := h.Clock.Now()
	check("a passkey", medium.ID, map[string]any{"presence": presence("passkey", signed, "")})

	h.Clock.Add(time.Minute)
	b.choose(b.get("/requests/"+low.ID), low.ID, "approve", url.Values{"target": {"another"}}).is(t, http.StatusSeeOther)
	check("a passkey of a minute ago", low.ID, map[string]any{"presence": presence("passkey", signed.Truncate(time.Second), "")})

	// With the API the call itself is the only proof, plus a typed name if the
	// approver sends one.
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("plain:**:*")
	for target, want := range map[string]any{"": map[string]any{}, "c": map[string]any{"target": "c"}, "another": map[string]any{}} {
		r, _ := h.asks("plain:c:read", "x", spec)
		if _, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Second], r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: target}); err != nil {
			t.Fatal(err)
		}
		check("the API with the target "+target, r.ID, want)
	}
	// A denial needs no proof, and its entry lists none.
	denied, _ := h.asks("plain:d:read", "x", spec)
	b.choose(b.get("/requests/"+denied.ID), denied.ID, "deny", no).is(t, http.StatusSeeOther)
	check("a denial", denied.ID, nil)

	// Auditors read it where they read entries.
	_, e := h.proofsOf(audit.RequestVoted, high.ID)
	aud := h.as(brokertest.Auditor)
	aud.get("/audit/"+e.Writer+"/"+strconv.FormatInt(e.Seq, 10)).is(t, http.StatusOK, "&#34;presence&#34;: {", "&#34;by&#34;: &#34;link&#34;", "&#34;target&#34;: &#34;"+high.Target()+"&#34;")
	if csv := aud.get("/audit.csv?kind=request.voted").body; !strings.Contains(csv, `""by"":""link""`) {
		t.Errorf("the CSV lacks the proofs: %s", csv)
	}
}

// TestBatchApprovalRecordsProofs: a batch decision lists its proof in the
// entry of each request.
func TestBatchApprovalRecordsProofs(t *testing.T) {
	t.Parallel()
	h, rs := few(t, 2)
	began := h.Clock.Now().Truncate(time.Second)
	b := h.as(brokertest.Approver)
	b.do(http.MethodPost, "/batch", b.multi(b.get("/batch?"+idsOf(rs).Encode())), nil).is(t, http.StatusOK)
	want := map[string]any{"presence": presence("link", began, "")}
	for _, r := range rs {
		if got, _ := h.proofsOf(audit.RequestVoted, r.ID); !reflect.DeepEqual(got, want) {
			t.Errorf("the entry has proofs %v, want %v", got, want)
		}
	}
}

// TestSignInProofIsRecorded: the entry contains the time (auth_time) and
// strength (acr) of a sign-in at the identity provider, as the provider sent
// them.
//
//ebb:invariant I11 The audit log entry of an approval names the proofs that the approver gave, such as the typed target and the presence check
func TestSignInProofIsRecorded(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, nil)
	b := h.browser()
	at := o.at.Now().Add(-time.Minute)
	o.signIn(t, b, attesttest.Claims{"acr": "phr", "auth_time": at.Unix()}).is(t, http.StatusSeeOther)
	r := h.asked("orders:eu/1:write")
	b.choose(b.get("/requests/"+r.ID), r.ID, "approve", typedFor(r)).is(t, http.StatusSeeOther)
	want := map[string]any{"target": r.Target(), "presence": presence("oidc", at, "phr")}
	if got, _ := h.proofsOf(audit.RequestVoted, r.ID); !reflect.DeepEqual(got, want) {
		t.Errorf("the entry has proofs %v, want %v", got, want)
	}
}
