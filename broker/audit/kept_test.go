package audit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
)

// vote and key return entries of an answer and of a passkey, as the broker writes them.
func vote(seen, proof string) audit.Entry {
	data := map[string]any{"approve": true, "digest": "d", "choice": "narrow", "passkey": "aa"}
	for name, text := range map[string]string{"seen_sha256": seen, "proof_sha256": proof} {
		if text != "" {
			data[name] = sha(text)
		}
	}
	return about(audit.RequestVoted, "ann", "req_1", data, time.Hour)
}

func key(kind, by string, after time.Duration) audit.Entry {
	return about(kind, by, "", map[string]any{"passkey": "aa", "public_key_sha256": sha("key")}, after)
}

func about(kind, by, request string, data map[string]any, after time.Duration) audit.Entry {
	raw, _ := json.Marshal(data)
	return audit.Entry{At: epoch.Add(after), Kind: kind, Actor: by, RequestID: request, Data: raw}
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func kept(t testing.TB, k audit.Kept) string { return line(t, map[string]audit.Kept{"kept": k}) }

// TestVerifyKept: the stored texts are compared with the log byte by byte, and the signature check
// gets the facts from the log.
//
//ebb:invariant I11 The verifier rejects an exported proof of a decision that does not match the audit log or does not prove the decision
func TestVerifyKept(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	seen, proof := `{"agent":"\u202e<b>✅"}`, `{"key":"AA"}`
	all := audit.Kept{RequestID: "req_1", By: "ann", Snapshot: seen, Proof: proof}
	added := key(audit.PasskeyAdded, "ann", 0)
	holds := func(audit.Signature) error { return nil }
	for name, c := range map[string]struct {
		entries []audit.Entry
		kept    []audit.Kept
		signed  func(audit.Signature) error
		fault   string
		want    audit.Report // of its counts
	}{
		"whole":                 {[]audit.Entry{added, vote(seen, proof)}, []audit.Kept{all}, holds, "", audit.Report{Kept: 1, Signed: 1}},
		"by hashes alone":       {[]audit.Entry{added, vote(seen, proof)}, []audit.Kept{all}, nil, "", audit.Report{Kept: 1}},
		"registered elsewhere":  {[]audit.Entry{vote(seen, proof)}, []audit.Kept{all}, holds, "", audit.Report{Kept: 1, Unregistered: 1}},
		"not exported":          {[]audit.Entry{added, vote(seen, proof)}, nil, holds, "", audit.Report{Unkept: 1}},
		"nothing signed":        {[]audit.Entry{vote(seen, "")}, []audit.Kept{{RequestID: "req_1", By: "ann", Snapshot: seen}}, holds, "", audit.Report{Kept: 1}},
		"nothing kept":          {[]audit.Entry{vote("", "")}, nil, holds, "", audit.Report{}},
		"removed later":         {[]audit.Entry{added, vote(seen, proof), key(audit.PasskeyRemoved, "ann", 2*time.Hour)}, []audit.Kept{all}, holds, "", audit.Report{Kept: 1, Signed: 1}},
		"removed and added":     {[]audit.Entry{added, key(audit.PasskeyRemoved, "ann", time.Minute), key(audit.PasskeyAdded, "ann", 2*time.Minute), vote(seen, proof)}, []audit.Kept{all}, holds, "", audit.Report{Kept: 1, Signed: 1}},
		"bad signature":         {[]audit.Entry{added, vote(seen, proof)}, []audit.Kept{all}, func(audit.Signature) error { return errors.New("broken") }, "do not prove it: broken", audit.Report{}},
		"another proof":         {[]audit.Entry{added, vote(seen, proof+" ")}, []audit.Kept{all}, holds, "the stored proof was changed", audit.Report{}},
		"another page":          {[]audit.Entry{added, vote(seen+" ", proof)}, []audit.Kept{all}, holds, "the text shown to the person was changed", audit.Report{}},
		"the proof was dropped": {[]audit.Entry{added, vote(seen, proof)}, []audit.Kept{{RequestID: "req_1", By: "ann", Snapshot: seen}}, holds, "the stored proof was changed", audit.Report{}},
		"a proof was added":     {[]audit.Entry{added, vote(seen, "")}, []audit.Kept{all}, holds, "the stored proof was changed", audit.Report{}},
		"of nobody":             {[]audit.Entry{added}, []audit.Kept{all}, holds, "no earlier answer of this person", audit.Report{}},
		"another's":             {[]audit.Entry{added, vote(seen, proof)}, []audit.Kept{{RequestID: "req_1", By: "bob", Snapshot: seen, Proof: proof}}, holds, "no earlier answer of this person", audit.Report{}},
		"of another request":    {[]audit.Entry{added, vote(seen, proof)}, []audit.Kept{{RequestID: "req_2", By: "ann", Snapshot: seen, Proof: proof}}, holds, "no earlier answer of this person", audit.Report{}},
		"twice":                 {[]audit.Entry{added, vote(seen, proof)}, []audit.Kept{all, all}, holds, "come a second time", audit.Report{}},
		"somebody else's key":   {[]audit.Entry{key(audit.PasskeyAdded, "bob", 0), vote(seen, proof)}, []audit.Kept{all}, holds, "registered by another person", audit.Report{}},
		"removed before":        {[]audit.Entry{added, key(audit.PasskeyRemoved, "ann", time.Minute), vote(seen, proof)}, []audit.Kept{all}, holds, "was removed before the answer", audit.Report{}},
		"another cannot remove": {[]audit.Entry{added, key(audit.PasskeyRemoved, "bob", time.Minute), vote(seen, proof)}, []audit.Kept{all}, holds, "", audit.Report{Kept: 1, Signed: 1}},
		"registered later":      {[]audit.Entry{vote(seen, proof), key(audit.PasskeyAdded, "ann", 2*time.Hour)}, []audit.Kept{all}, holds, "registered after the answer", audit.Report{}},
		"choice not said":       {[]audit.Entry{added, about(audit.RequestVoted, "ann", "req_1", map[string]any{"seen_sha256": sha(seen), "proof_sha256": sha(proof)}, time.Hour)}, []audit.Kept{all}, holds, "does not name the choice and the passkey", audit.Report{}},
		"a key that is none":    {[]audit.Entry{about(audit.PasskeyAdded, "ann", "", map[string]any{"passkey": "aa", "public_key_sha256": 1}, 0)}, nil, holds, "passkey cannot be read", audit.Report{}},
		"an answer of no form":  {[]audit.Entry{about(audit.RequestVoted, "ann", "req_1", map[string]any{"digest": 1}, 0)}, nil, holds, "cannot be read", audit.Report{}},
	} {
		chain, err := audit.NewChain("a")
		if err != nil {
			t.Fatal(err)
		}
		var linked []audit.Entry
		for _, e := range c.entries {
			if err := chain.Link(&e); err != nil {
				t.Fatal(name, err)
			}
			linked = append(linked, e)
		}
		lines := export(t, linked)
		for _, kp := range c.kept {
			lines = append(lines, kept(t, kp))
		}
		judged := 0
		signed := c.signed
		if signed != nil {
			signed = func(s audit.Signature) error {
				judged++
				if s.RequestID != "req_1" || s.By != "ann" || s.Choice != "narrow" || s.Digest != "d" || s.Passkey != "aa" || s.Proof != proof {
					t.Errorf("%s: %+v", name, s)
				}
				return c.signed(s)
			}
		}
		r, err := audit.VerifyKept(join(append(lines, line(t, k.seal(t, linked[len(linked)-1])))), k.set, signed)
		f, isFault := errors.AsType[*audit.Fault](err)
		switch {
		case c.fault == "" && err != nil, c.fault != "" && (!isFault || !strings.Contains(f.Error(), c.fault)):
			t.Errorf("%s: got %v, want %q", name, err, c.fault)
		case err == nil && (r.Kept != c.want.Kept || r.Signed != c.want.Signed || r.Unregistered != c.want.Unregistered || r.Unkept != c.want.Unkept || judged != r.Signed+r.Unregistered):
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

// TestKeptLines: these lines are ASCII and restore the text; an invalid line is refused.
func TestKeptLines(t *testing.T) {
	t.Parallel()
	in := audit.Kept{RequestID: "req_1", By: "ann", Snapshot: "a\u202e\u0085✅\U000e0041\x7f\"\\\n</script>", Proof: "{}"}
	text := kept(t, in)
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			t.Fatalf("0x%x in %s", c, text)
		}
	}
	var back struct{ Kept audit.Kept }
	if err := json.Unmarshal([]byte(text), &back); err != nil || back.Kept != in {
		t.Errorf("%+v, %v", back, err)
	}
	k := newKeyring(t)
	for _, bad := range []string{`{"kept":1}`, `{"kept"`, `{"kept":{"request_id":"req_1","by":"ann","x":1}}`, `{"kept":{}} {}`, `{"kept":{},"more":1}`, `{"kept":{}}x`} {
		if _, err := audit.Verify(join(append(export(t, link(t, "a", 1)), bad)), k.set); err == nil {
			t.Errorf("%s passes", bad)
		}
	}
}

// FuzzKept: an accepted line belongs to an answer in the log, and has its hashes.
func FuzzKept(f *testing.F) {
	k := newKeyring(f)
	chain, err := audit.NewChain("a")
	if err != nil {
		f.Fatal(err)
	}
	e := vote("seen", "proof")
	if err := chain.Link(&e); err != nil {
		f.Fatal(err)
	}
	head := export(f, []audit.Entry{e})
	f.Add(kept(f, audit.Kept{RequestID: "req_1", By: "ann", Snapshot: "seen", Proof: "proof"}))
	f.Add(`{"kept":{"by":"ann","request_id":"req_1","seen":"seen","proof":"x"}}`)
	f.Add(`{"kept":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := audit.VerifyKept(join(append(head, text)), k.set, func(s audit.Signature) error {
			if s.Proof != "proof" || s.By != "ann" || s.RequestID != "req_1" {
				t.Errorf("%+v", s)
			}
			return nil
		})
		if err == nil && r.Kept > 1 {
			t.Errorf("%d kept of one answer", r.Kept)
		}
	})
}
