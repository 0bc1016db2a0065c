package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/audit"
)

// proofOf returns the lines of the proof of a selection of a log.
func proofOf(t testing.TB, s *audit.Selection, log map[string][]audit.Entry, points ...audit.Checkpoint) []string {
	t.Helper()
	ranges, used, unsigned := s.Ranges(points)
	lines := []string{line(t, audit.ProofLine{Statement: &audit.Statement{List: "audit", Filter: map[string]string{"kind": "lease.issued"}, Unsigned: unsigned}})}
	for _, r := range ranges {
		for _, e := range log[r.Writer][r.First-1 : r.Last] {
			lines = append(lines, line(t, audit.ProofLine{Entry: &e, Between: !s.Has(e)}))
		}
	}
	for _, p := range used {
		lines = append(lines, line(t, audit.ProofLine{Checkpoint: &p}))
	}
	return lines
}

func selected(entries ...audit.Entry) *audit.Selection {
	var s audit.Selection
	for _, e := range entries {
		s.Add(e)
	}
	return &s
}

// A log of two writers, with a checkpoint after a5 and b2, after a10 and b4, and after a15.
type proofLog struct {
	keyring
	a, b   []audit.Entry
	log    map[string][]audit.Entry
	points []audit.Checkpoint
}

func newProofLog(t testing.TB) proofLog {
	k := newKeyring(t)
	a, b := link(t, "a", 20), link(t, "b", 5)
	return proofLog{k, a, b, map[string][]audit.Entry{"a": a, "b": b}, []audit.Checkpoint{k.seal(t, a[4], b[1]), k.seal(t, a[9], b[3]), k.seal(t, a[14])}}
}

//ebb:invariant I11 A filtered export with a proof shows offline that its entries are in the audit log, unaltered
func TestProof(t *testing.T) {
	t.Parallel()
	p := newProofLog(t)
	s := selected(p.a[1], p.a[3], p.a[3], p.a[11], p.a[17], p.b[2])
	lines := proofOf(t, s, p.log, p.points...)
	// a2 to a5, a12 to a15, b3 to b4, all three checkpoints, and the statement.
	if len(lines) != 1+4+4+2+3 {
		t.Fatalf("%d lines: %s", len(lines), strings.Join(lines, "\n"))
	}
	r, err := audit.Verify(join(lines), p.set)
	if err != nil {
		t.Fatal(err)
	}
	if r.Entries != 4 || r.Between != 6 || r.Checkpoints != 3 || r.Proof == nil || r.Proof.Unsigned != 1 || r.Proof.Filter["kind"] != "lease.issued" || r.Whole() {
		t.Errorf("got %+v, %+v", r, r.Proof)
	}
	// The checkpoint that nothing needs is left out.
	if lines := proofOf(t, selected(p.a[1]), p.log, p.points...); len(lines) != 1+4+1 {
		t.Errorf("%d lines: %s", len(lines), strings.Join(lines, "\n"))
	}
	// An entry that a checkpoint names needs no other entry.
	if lines := proofOf(t, selected(p.a[4]), p.log, p.points...); len(lines) != 1+1+1 {
		t.Errorf("%d lines: %s", len(lines), strings.Join(lines, "\n"))
	}
	// Of neighbouring ranges, the verifier makes one.
	if r, err := audit.Verify(join(proofOf(t, selected(p.a[:10]...), p.log, p.points...)), p.set); err != nil || r.Entries != 10 || r.Between != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

//ebb:invariant I11 A proof of a filtered export with a changed, dropped, moved, added or repeated line is refused
func TestProofTampered(t *testing.T) {
	t.Parallel()
	p := newProofLog(t)
	good := proofOf(t, selected(p.a[1], p.a[3], p.a[11], p.b[2]), p.log, p.points...)
	if _, err := audit.Verify(join(good), p.set); err != nil {
		t.Fatal(err)
	}
	change := func(i int, f func(*audit.Entry)) []string {
		var e audit.Entry
		if err := json.Unmarshal([]byte(good[i]), &e); err != nil {
			t.Fatal(err)
		}
		f(&e)
		return slices.Concat(good[:i], []string{line(t, e)}, good[i+1:])
	}
	actor := func(e *audit.Entry) { e.Actor = "cj" }
	other := newProofLog(t)
	gap := func(e audit.Entry) string { return line(t, audit.ProofLine{Entry: &e, Between: true}) }
	for _, tt := range []struct {
		name  string
		lines []string
		line  int
		why   string
	}{
		{"altered", change(1, actor), 2, "the entry was changed"},
		{"altered, with its hash", change(1, func(e *audit.Entry) { actor(e); *e = resum(*e) }), 3, "the entry before it was changed"},
		{"the last before a checkpoint altered, with its hash", slices.Concat(good[:4], []string{gap(resum(altered(p.a[4])))}, good[5:]), 12, "another one"},
		{"selected dropped", slices.Delete(slices.Clone(good), 3, 4), 2, "does not link this entry"},
		{"gap too short", slices.Delete(slices.Clone(good), 4, 5), 2, "does not link this entry"},
		{"gap with a hole", slices.Delete(slices.Clone(good), 2, 3), 2, "does not link this entry"},
		{"gap too long", slices.Insert(slices.Clone(good), 5, gap(p.a[5])), 6, "does not link this entry"},
		{"swapped", slices.Concat(good[:1], []string{good[2], good[1]}, good[3:]), 3, "the order was changed"},
		{"repeated", slices.Insert(slices.Clone(good), 2, good[1]), 3, "twice"},
		{"selected and between", slices.Insert(slices.Clone(good), 2, gap(p.a[1])), 3, "twice"},
		{"invented", slices.Insert(slices.Clone(good), 5, line(t, resum(altered(p.a[7])))), 6, "does not link this entry"},
		{"invented writer", slices.Insert(slices.Clone(good), 5, line(t, link(t, "z", 1)[0])), 6, "does not link this entry"},
		{"of another log", slices.Concat(good[:11], proofOf(t, selected(other.a[1]), other.log, other.points...)[5:]), 12, "not signed by a known key"},
		{"checkpoint dropped", slices.Delete(slices.Clone(good), 13, 14), 6, "does not link this entry"},
		{"no checkpoint", good[:11], 2, "does not link this entry"},
		{"cut off", append(slices.Clone(good[:13]), good[13][:len(good[13])/2]), 14, "JSON"},
		{"no statement", good[1:], 2, "between"},
		{"statement later", slices.Concat(good[1:2], good[:1], good[2:]), 2, "first line"},
		{"two statements", slices.Insert(slices.Clone(good), 1, good[0]), 2, "first line"},
		{"between twice in a line", slices.Replace(slices.Clone(good), 2, 3, strings.TrimSuffix(good[2], "}")+","+good[2][1:]), 3, "between"},
		{"member beside between", slices.Replace(slices.Clone(good), 2, 3, strings.TrimSuffix(good[2], "}")+`,"x":1}`), 3, "between"},
		{"nothing between", slices.Replace(slices.Clone(good), 2, 3, `{"between":null}`), 3, "between"},
		{"statement of nothing", slices.Replace(slices.Clone(good), 0, 1, `{"proof":null}`), 1, "first line"},
		{"statement with more", slices.Replace(slices.Clone(good), 0, 1, `{"proof":{"list":"audit","filter":{},"unsigned":0,"whole":true}}`), 1, "first line"},
		{"huge statement", slices.Replace(slices.Clone(good), 0, 1, `{"proof":{"list":"`+strings.Repeat("a", 17<<10)+`","filter":{},"unsigned":0}}`), 1, "first line"},
		{"huge line", slices.Insert(slices.Clone(good), 1, `{"between":"`+strings.Repeat("a", 9<<20)+`"}`), 2, "longer than any line"},
		{"filter of the other kind", slices.Insert(slices.Clone(good), 1, `{"filter":{"kind":"lease."}}`), 2, "first line"},
		{"texts of answers", append(slices.Clone(good), `{"kept":{"request_id":"r","by":"mia"}}`), 15, "stored texts"},
	} {
		wantFault(t, tt.name, tt.lines, p.set, tt.line, tt.why)
	}
	// The wrong key.
	wantFault(t, "wrong key", good, newKeyring(t).set, 12, "not signed by a known key")
	// An earlier state cannot be compared with a part of the log.
	_, err := audit.VerifyAgainst(join(good), p.set, nil, map[string]audit.Head{"a": {Seq: 1, Hash: p.a[0].Hash}})
	if f, ok := errors.AsType[*audit.Fault](err); !ok || !strings.Contains(f.Why, "earlier state") {
		t.Errorf("against an earlier state: %v", err)
	}
}

func altered(e audit.Entry) audit.Entry {
	e.Actor = "cj"
	return e
}

// In a chain with gaps, an invented entry can have a number below a signed head. It must not make
// its key trusted.
func TestProofNamesNoKey(t *testing.T) {
	t.Parallel()
	p := newProofLog(t)
	forger := newNumbered(t, 2)
	data, err := json.Marshal(forger.fact)
	if err != nil {
		t.Fatal(err)
	}
	names := p.a[2]
	names.Kind, names.Data = audit.KeyAdded, data
	names = resum(names)
	invented := link(t, "z", 1)
	forged, err := audit.SignCheckpoint(forger.signer, forger.public.KID, epoch.Add(time.Hour), map[string]audit.Head{"z": {Seq: 1, Hash: invented[0].Hash}, "a": {Seq: 3, Hash: names.Hash}})
	if err != nil {
		t.Fatal(err)
	}
	good := proofOf(t, selected(p.a[11]), p.log, p.points...)
	wantFault(t, "key of the proof", slices.Concat(good[:1], []string{line(t, names)}, good[1:5], []string{line(t, invented[0])}, good[5:], []string{line(t, forged)}), p.set, 9, "key "+forger.public.KID+" is missing")
}

// A checkpoint that a revoked key signed later is not used, and the proof says that the key was
// revoked.
func TestProofAfterRevocation(t *testing.T) {
	t.Parallel()
	p := newProofLog(t)
	c, err := audit.NewChain("c")
	if err != nil {
		t.Fatal(err)
	}
	revoked := entry(audit.KeyRevoked, `{"kid":"k1","number":1,"since":"2026-03-04T06:00:00Z","reason":"leaked"}`)
	if err := c.Link(&revoked); err != nil {
		t.Fatal(err)
	}
	next := newNumbered(t, 2)
	after, err := audit.SignCheckpoint(next.signer, next.public.KID, epoch.Add(2*time.Hour), map[string]audit.Head{"a": {Seq: 20, Hash: p.a[19].Hash}, "c": {Seq: 1, Hash: revoked.Hash}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := jose.NewKeySet(append(p.set.Keys(), next.public)...)
	if err != nil {
		t.Fatal(err)
	}
	p.log["c"] = []audit.Entry{revoked}
	s := selected(p.a[11])
	if err := s.Revoke(revoked); err != nil {
		t.Fatal(err)
	}
	lines := proofOf(t, s, p.log, append(p.points, after)...)
	if r, err := audit.Verify(join(lines), set); err != nil || r.Entries != 1 || r.Between != 9 || r.Checkpoints != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	wantFault(t, "signed after the revocation", slices.Concat(lines[:5], lines[10:11], []string{line(t, p.points[2]), line(t, after)}), set, 2, "does not link this entry")
}

func FuzzProof(f *testing.F) {
	p := newProofLog(f)
	good := proofOf(f, selected(p.a[1], p.a[3], p.b[2]), p.log, p.points...)
	f.Add([]byte(strings.Join(good[1:7], "\n")))
	f.Add([]byte(`{"between":{}}`))
	f.Add([]byte(`{"proof":{"list":"","filter":null,"unsigned":0}}`))
	known := map[string]bool{}
	for _, es := range p.log {
		for _, e := range es {
			known[line(f, e)] = true
		}
	}
	points := strings.Join(append(export(f, p.points[0], p.points[1], p.points[2]), ""), "\n")
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := io.MultiReader(strings.NewReader(good[0]+"\n"), bytes.NewReader(raw), strings.NewReader("\n"+points))
		if _, err := audit.Verify(in, p.set); err != nil {
			return
		}
		for _, l := range bytes.Split(raw, []byte("\n")) {
			var e audit.Entry
			var gap struct{ Between audit.Entry }
			if e.UnmarshalJSON(l) == nil && !known[line(t, e)] || json.Unmarshal(l, &gap) == nil && gap.Between.Seq > 0 && !known[line(t, gap.Between)] {
				t.Fatalf("proved an entry that is not in the log: %s", l)
			}
		}
	})
}
