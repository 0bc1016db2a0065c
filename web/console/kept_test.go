package console_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

// keySet returns the keys that verify checkpoints of this ebb.
func (h *fixture) keySet() jose.KeySet {
	h.t.Helper()
	set, err := jose.ParseJWKS(h.Broker.JWKS())
	if err != nil {
		h.t.Fatal(err)
	}
	return set
}

// approves approves a request with a passkey.
func (a *authenticator) approves(b *browser, r broker.Request, choice string, fields url.Values) answer {
	a.t.Helper()
	c, state := a.options(b, "/requests/"+r.ID+"/challenge?"+url.Values{"choice": {choice}, "digest": {r.Digest}, "scope": fields["scope"], "minutes": fields["minutes"]}.Encode())
	f := url.Values{"assertion": {a.get(c)}, "state": {state}}
	for k, v := range fields {
		f[k] = v
	}
	return b.choose(b.get("/requests/"+r.ID), r.ID, choice, f)
}

// TestKeptIsProvedLater: the export and ebb's public keys alone prove that this
// person's passkey signed this answer, and that nothing was changed.
//
//ebb:invariant I11 The audit log entry of a decision contains the hash of its signed proof
func TestKeptIsProvedLater(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b, aud, a := h.as(brokertest.Approver), h.as(brokertest.Auditor), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	signed := h.asked("orders:eu/1:write")
	a.approves(b, signed, "narrow", url.Values{"scope": {"orders:eu/1:write"}, "minutes": {"3"}}).is(t, http.StatusSeeOther)
	unsigned := h.asked("orders:eu/2:write")
	second := h.as(brokertest.Second) // a person without a passkey
	second.choose(second.get("/requests/"+unsigned.ID), unsigned.ID, "approve", url.Values{"target": {"eu/2"}}).is(t, http.StatusSeeOther)
	if err := h.Broker.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := aud.get("/requests/" + signed.ID + "/snapshot/" + brokertest.Approver)
	seen.is(t, http.StatusOK, "The signature is valid, checked now: by passkey", "of "+brokertest.Approver+", registered")
	aud.get("/requests/"+unsigned.ID+"/snapshot/"+brokertest.Second).is(t, http.StatusOK, "No passkey signed this answer")
	// Its audit entry.
	var e audit.Entry
	for found, err := range h.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.RequestVoted, RequestID: signed.ID}) {
		if e = found; err != nil {
			t.Fatal(err)
		}
	}
	for _, says := range []string{`"choice":"narrow"`, `"digest":"` + signed.Digest + `"`, `"passkey":"`, `"proof_sha256":"`, `"seen_sha256":"`} {
		if !strings.Contains(string(e.Data), says) {
			t.Errorf("the record of the answer lacks %s: %s", says, e.Data)
		}
	}
	whole := aud.get("/audit.jsonl?kept=true")
	whole.is(t, http.StatusOK)
	r, err := audit.VerifyKept(strings.NewReader(whole.body), h.keySet(), passkey.Check)
	if err != nil || !r.Whole() || r.Kept != 2 || r.Signed != 1 || r.Unkept != 0 || r.Unregistered != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := audit.VerifyKept(strings.NewReader(aud.get("/audit.jsonl").body), h.keySet(), passkey.Check); err != nil || r.Unkept != 2 || r.Kept != 0 {
		t.Errorf("without: %+v, %v", r, err)
	}
	for _, who := range []string{brokertest.Runner, brokertest.Approver} {
		if got := h.as(who).get("/audit.jsonl?kept=true"); got.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", who, got.StatusCode)
		}
	}
	aud.get("/audit.csv?kept=true").is(t, http.StatusBadRequest)
	h.proofsForged(t, whole.body)
}

// proofsForged: no other proof is accepted in place of the stored one, even
// with recomputed hashes.
func (h *fixture) proofsForged(t *testing.T, export string) {
	t.Helper()
	var good audit.Signature
	if _, err := audit.VerifyKept(strings.NewReader(export), h.keySet(), func(s audit.Signature) error { good = s; return nil }); err != nil || good.KeyHash == "" {
		t.Fatal(good, err)
	}
	if err := passkey.Check(good); err != nil {
		t.Fatal(err)
	}
	stranger := newAuthenticator(t)
	for name, change := range map[string]func(*audit.Signature, *passkey.Proof){
		"another answer":    func(s *audit.Signature, _ *passkey.Proof) { s.Choice = "approve" },
		"other facts":       func(s *audit.Signature, _ *passkey.Proof) { s.Digest += "A" },
		"another request":   func(s *audit.Signature, _ *passkey.Proof) { s.RequestID = "req_x" },
		"another passkey":   func(s *audit.Signature, _ *passkey.Proof) { s.Passkey = "aa" },
		"registered by key": func(s *audit.Signature, _ *passkey.Proof) { s.KeyHash = broker.TextHash("another") },
		"another salt":      func(_ *audit.Signature, p *passkey.Proof) { p.Salt = bytes.Repeat([]byte{1}, 32) },
		"a short salt":      func(_ *audit.Signature, p *passkey.Proof) { p.Salt = p.Salt[:31] },
		"another host":      func(_ *audit.Signature, p *passkey.Proof) { p.RPID = "evil.test" },
		"another origin":    func(_ *audit.Signature, p *passkey.Proof) { p.Origin = "https://evil.test" },
		"an address":        func(_ *audit.Signature, p *passkey.Proof) { p.Origin = "http://127.0.0.1" },
		"no assertion":      func(_ *audit.Signature, p *passkey.Proof) { p.Assertion = json.RawMessage(`null`) },
		"not verified": func(s *audit.Signature, p *passkey.Proof) {
			p.Assertion = changed(t, p.Assertion, "authenticatorData", 32)
		},
		"a changed counter": func(_ *audit.Signature, p *passkey.Proof) {
			p.Assertion = changed(t, p.Assertion, "authenticatorData", 36)
		},
		"a changed client": func(_ *audit.Signature, p *passkey.Proof) { p.Assertion = changed(t, p.Assertion, "clientDataJSON", 2) },
		"a changed key hash": func(_ *audit.Signature, p *passkey.Proof) {
			p.Assertion = changed(t, p.Assertion, "authenticatorData", 0)
		},
		"a changed signature": func(_ *audit.Signature, p *passkey.Proof) {
			p.Assertion = changed(t, p.Assertion, "signature", 20)
		},
		"a stranger's key": func(s *audit.Signature, p *passkey.Proof) {
			// A forger without the person's key signs with another key, under
			// the id of the person's key.
			stranger.id, s.KeyHash = p.Key, ""
			d := passkey.Decision{Request: s.RequestID, Choice: s.Choice, Digest: s.Digest}
			p.Assertion = json.RawMessage(stranger.get(b64(d.Challenge(p.Salt))))
		},
	} {
		s := good
		p, err := passkey.ReadProof([]byte(good.Proof))
		if err != nil {
			t.Fatal(err)
		}
		change(&s, &p)
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		s.Proof = string(raw)
		if err := passkey.Check(s); err == nil {
			t.Errorf("%s: it holds", name)
		}
	}
	for _, bad := range []string{"", "{}", "[]", "null", good.Proof + "{}", strings.Replace(good.Proof, `"key"`, `"more":1,"key"`, 1)} {
		s := good
		s.Proof = bad
		if err := passkey.Check(s); err == nil {
			t.Errorf("%.40q: it holds", bad)
		}
	}
	// With another person's registration the whole export is refused.
	stolen := strings.Replace(export, `"actor":"`+brokertest.Approver+`"`, `"actor":"`+brokertest.Second+`"`, 1)
	if _, err := audit.VerifyKept(strings.NewReader(stolen), h.keySet(), passkey.Check); err == nil {
		t.Error("a changed record passes")
	}
	if i := strings.Index(export, `{"kept"`); i < 0 {
		t.Error("nothing kept")
	} else if _, err := audit.VerifyKept(strings.NewReader(export[:i]+strings.Replace(export[i:], `eu/1`, `eu/9`, 1)), h.keySet(), passkey.Check); !isFault(err) {
		t.Errorf("changed words of what was seen: %v", err)
	}
}

func isFault(err error) bool { _, ok := errors.AsType[*audit.Fault](err); return ok }

// changed flips one bit of a member of the response of an assertion.
func changed(t *testing.T, assertion []byte, member string, at int) []byte {
	t.Helper()
	var a map[string]any
	if err := json.Unmarshal(assertion, &a); err != nil {
		t.Fatal(err)
	}
	r := a["response"].(map[string]any)
	b, err := base64.RawURLEncoding.DecodeString(r[member].(string))
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 4
	r[member] = b64(b)
	out, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestKeptChangedInTheDatabase: the page of an approver's evidence says so when
// the stored evidence does not match the audit log.
func TestKeptChangedInTheDatabase(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b, aud, a := h.as(brokertest.Approver), h.as(brokertest.Auditor), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	first := h.asked("orders:eu/1:write")
	a.approves(b, first, "approve", url.Values{"target": {"eu/1"}}).is(t, http.StatusSeeOther)
	got, err := h.Store.Requests(t.Context(), broker.RequestFilter{IDs: []string{first.ID}, Snapshots: true})
	if err != nil || len(got) != 1 || len(got[0].Votes) != 1 {
		t.Fatal(got, err)
	}
	vote := got[0].Votes[0]
	for name, c := range map[string]struct {
		seen, proof string
		says        string
	}{
		"another page":      {vote.Snapshot + " ", vote.Proof, "the text shown to the person was changed"},
		"no proof":          {vote.Snapshot, "", "the stored proof was changed"},
		"another's proof":   {vote.Snapshot, vote.Proof, "is not valid"},
		"of another digest": {vote.Snapshot, vote.Proof, "is not valid"},
	} {
		r := h.asked("orders:eu/1:write")
		v := vote
		v.RequestID, v.Digest, v.At = r.ID, r.Digest, h.Clock.Now()
		v.Snapshot, v.Proof = c.seen, c.proof
		data := map[string]any{"approve": true, "digest": r.Digest, "choice": "approve", "passkey": hex.EncodeToString(a.id), "seen_sha256": broker.TextHash(vote.Snapshot), "proof_sha256": broker.TextHash(vote.Proof)}
		raw, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		e := audit.Entry{At: v.At, Kind: audit.RequestVoted, Actor: v.By, TaskID: r.TaskID, RequestID: r.ID, Data: raw}
		yes, no := e, e
		yes.Kind, yes.Data, no.Kind, no.Data = audit.RequestApproved, nil, audit.RequestDenied, nil
		if _, err := h.Store.Vote(t.Context(), v, v.At.Add(time.Hour), e, yes, no); err != nil {
			t.Fatal(name, err)
		}
		aud.get("/requests/"+r.ID+"/snapshot/"+brokertest.Approver).is(t, http.StatusOK, "Not proved.", c.says)
	}
}
