package audit_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/audit"
)

// resum sets the hash of an entry's current content.
func resum(e audit.Entry) audit.Entry {
	e.Hash = audit.Sum(e)
	return e
}

// An entry may have the hash that it claims and still not fit into a chain.
func TestVerifyPlaces(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	a := link(t, "a", 3)
	changed := func(e audit.Entry, change func(*audit.Entry)) []string {
		change(&e)
		return export(t, []audit.Entry{resum(e)})
	}
	wantFault(t, "seq 0", changed(a[0], func(e *audit.Entry) { e.Seq = 0 }), k.set, 1, "no place in a chain")
	wantFault(t, "no writer", changed(a[0], func(e *audit.Entry) { e.Writer = "" }), k.set, 1, "no place in a chain")
	wantFault(t, "something before the first", changed(a[0], func(e *audit.Entry) { e.Prev = a[2].Hash }), k.set, 1, "hash of the previous entry")
	wantFault(t, "nothing before the third", changed(a[2], func(e *audit.Entry) { e.Prev = "" }), k.set, 1, "hash of the previous entry")
	early := a[1]
	early.At = a[0].At.Add(-time.Second)
	wantFault(t, "earlier than the one before", export(t, []audit.Entry{a[0], resum(early)}), k.set, 2, "time of the entry is earlier than")
	seal := line(t, k.seal(t, a[2]))
	wantFault(t, "a member beside the checkpoint", append(export(t, a), strings.TrimSuffix(seal, "}")+`,"x":1}`), k.set, 4, "canonical")
}

func TestChainResumesNowhere(t *testing.T) {
	t.Parallel()
	e := link(t, "a", 1)[0]
	e.Seq = 0
	if _, err := audit.ResumeChain(resum(e)); err == nil {
		t.Error("a chain goes on from seq 0")
	}
	e.Seq, e.Hash = -1, ""
	if _, err := audit.ResumeChain(e); err == nil {
		t.Error("a chain goes on from what cannot be encoded")
	}
}

func TestCheckpointsOfNothing(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	hash := link(t, "a", 1)[0].Hash
	for name, heads := range map[string]map[string]audit.Head{
		"none": nil, "empty": {}, "capitals": {"a": {Seq: 1, Hash: strings.Repeat("A", 64)}},
	} {
		if _, err := audit.SignCheckpoint(k.signer, "k1", epoch, heads); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
	if _, err := audit.SignCheckpoint(k.signer, "", epoch, map[string]audit.Head{"a": {Seq: 1, Hash: hash}}); err == nil {
		t.Error("signed without a key id")
	}
	c := k.seal(t, link(t, "a", 1)...)
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(c.JWS, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	for kid, good := range map[string]bool{"k1": true, "": false} {
		if c.JWS, err = jose.Sign(k.signer, jose.SignHeader{Type: audit.CheckpointType, KID: kid}, json.RawMessage(payload)); err != nil {
			t.Fatal(err)
		}
		if err := c.Verify(k.set); (err == nil) != good {
			t.Errorf("kid %q: %v", kid, err)
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := new(audit.Checkpoint).UnmarshalJSON([]byte(strings.Replace(string(text), `"heads"`, `"Heads"`, 1))); err == nil {
		t.Error("a member in another case was read")
	}
}

// An entry beyond the limits of the canonical form is refused, also when its source form is within
// them.
func TestEntryThatGrows(t *testing.T) {
	t.Parallel()
	e := link(t, "a", 1)[0]
	e.Data = json.RawMessage(`{"a":[` + strings.Repeat("1e20,", 10_000) + `1]}`)
	if _, err := audit.Draft(e); err == nil {
		t.Error("data of more than 64 KiB was taken")
	}
	e = link(t, "a", 1)[0]
	e.Seq = 1 << 53
	if _, err := e.MarshalJSON(); err == nil {
		t.Error("a seq that no double keeps was written")
	}
}
