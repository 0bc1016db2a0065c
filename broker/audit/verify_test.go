package audit_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/audit"
)

func wantFault(t *testing.T, name string, lines []string, keys jose.KeySet, at int, why string) {
	t.Helper()
	_, err := audit.Verify(join(lines), keys)
	f, ok := errors.AsType[*audit.Fault](err)
	if !ok {
		t.Errorf("%s: got %v, want a fault", name, err)
		return
	}
	if f.Line != at || !strings.Contains(f.Error(), why) {
		t.Errorf("%s: got %q, want line %d and %q", name, f, at, why)
	}
}

func TestVerifyWhole(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	a, b := link(t, "a", 5), link(t, "b", 3)
	mixed := []audit.Entry{a[0], b[0], a[1], a[2], b[1], b[2], a[3], a[4]}
	r, err := audit.Verify(join(export(t, mixed[:6], k.seal(t, a[2], b[1]), mixed[6:], k.seal(t, a[3], b[2]))), k.set)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Whole() || r.Partial || r.Entries != 8 || r.Checkpoints != 2 || r.Unsealed != 1 || len(r.Missing) != 0 {
		t.Errorf("got %+v", r)
	}
	if w := r.Writers; len(w) != 2 || w[0].Writer != "a" || w[0].First != 1 || w[0].Last != 5 || w[0].Sealed != 4 || w[0].Hash != a[4].Hash || w[1].Sealed != 3 {
		t.Errorf("got %+v", w)
	}
	// Checkpoints may come first, and an auditor may add one kept elsewhere.
	if r, err := audit.Verify(join(export(t, k.seal(t, a[4]), mixed, k.seal(t, b[0]))), k.set); err != nil || r.Unsealed != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
	// Without a checkpoint, the export is not proved.
	if r, err := audit.Verify(join(export(t, mixed)), k.set); err != nil || r.Whole() || r.Unsealed != 8 {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := audit.Verify(strings.NewReader(""), k.set); err != nil || r.Whole() {
		t.Errorf("empty: got %+v, %v", r, err)
	}
	// The newline at the end may be missing.
	if _, err := audit.Verify(strings.NewReader(strings.Join(export(t, mixed), "\n")), k.set); err != nil {
		t.Error(err)
	}
}

func TestVerifyPartial(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	a, old := link(t, "a", 6), link(t, "old", 2)
	seals := []any{k.seal(t, a[1], old[1]), k.seal(t, a[4], old[1])}
	r, err := audit.Verify(join(export(t, append([]any{a[3:]}, seals...)...)), k.set)
	if err != nil {
		t.Fatal(err)
	}
	if r.Whole() || !r.Partial || !slices.Equal(r.Missing, []string{"old"}) || r.Writers[0].First != 4 || r.Unsealed != 1 {
		t.Errorf("got %+v", r)
	}
	// The same writer is missing from an export that claims to be complete.
	wantFault(t, "writer removed", export(t, a, seals[1]), k.set, 7, "the whole writer was removed")
}

//ebb:invariant I11 The verifier detects an audit log entry whose content was changed
func TestVerifyFlippedMembers(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	for name, flip := range map[string]func(*audit.Entry){
		"at":      func(e *audit.Entry) { e.At = e.At.Add(1e6) },
		"kind":    func(e *audit.Entry) { e.Kind = audit.LeaseRevoked },
		"actor":   func(e *audit.Entry) { e.Actor = "cj" },
		"task":    func(e *audit.Entry) { e.TaskID = "tsk_1" },
		"lease":   func(e *audit.Entry) { e.LeaseID = "lse_2" },
		"request": func(e *audit.Entry) { e.RequestID = "req_1" },
		"data":    func(e *audit.Entry) { e.Data = json.RawMessage(`{"n":2}`) },
		"no data": func(e *audit.Entry) { e.Data = nil },
		"writer":  func(e *audit.Entry) { e.Writer = "b" },
		"seq":     func(e *audit.Entry) { e.Seq++ },
		"prev":    func(e *audit.Entry) { e.Prev = strings.Repeat("0", 64) },
		"hash":    func(e *audit.Entry) { e.Hash = strings.Repeat("0", 64) },
	} {
		a := link(t, "a", 4)
		seal := k.seal(t, a[3])
		flip(&a[2])
		wantFault(t, name, export(t, a, seal), k.set, 3, "the entry was changed")
		if name == "hash" {
			continue
		}
		// If its own hash is recomputed, the next link or the head shows the change.
		a[2].Hash = audit.Sum(a[2])
		if _, err := audit.Verify(join(export(t, a, seal)), k.set); err == nil {
			t.Errorf("%s with a new hash: accepted", name)
		}
	}
}

//ebb:invariant I11 The verifier detects a missing or moved audit log entry
func TestVerifyShuffledLines(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	a := link(t, "a", 5)
	seal := line(t, k.seal(t, a[4]))
	lines := export(t, a)
	with := func(ls ...string) []string { return append(ls, seal) }
	l := func(i ...int) (out []string) {
		for _, i := range i {
			out = append(out, lines[i])
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		lines []string
		at    int
		why   string
	}{
		{"dropped", with(l(0, 1, 3, 4)...), 3, "entries are missing"},
		{"swapped", with(l(0, 2, 1, 3, 4)...), 2, "entries are missing"},
		{"twice", with(l(0, 1, 1, 2, 3, 4)...), 3, "twice"},
		{"first last", with(l(1, 2, 3, 4, 0)...), 5, "the order was changed"},
		{"tail cut", with(l(0, 1, 2)...), 4, "the end was cut off"},
		{"all cut", with(), 1, "the whole writer was removed"},
		{"empty line", with(lines[0], "", lines[1]), 2, "canonical"},
		{"garbage", with(lines[0], "{", lines[1]), 2, "canonical"},
		{"two on a line", with(lines[0]+lines[1], lines[2]), 1, "canonical"},
		{"half a line", with(lines[0], lines[1][:40]), 2, "canonical"},
		{"too long", with(lines[0], strings.Repeat("x", 9<<20)), 2, "longer"},
	} {
		wantFault(t, tt.name, tt.lines, k.set, tt.at, tt.why)
	}
}

//ebb:invariant I11 The verifier detects a missing or moved audit log entry
//ebb:invariant I11 The verifier detects by its signed checkpoints that an audit log was rewritten
func TestVerifyForksAndRewrites(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	a, b := link(t, "a", 5), link(t, "b", 2)
	seal := k.seal(t, a[4], b[1])

	// An attacker with write access to the store but without a key recomputes the whole chain.
	c, _ := audit.NewChain("a")
	forged := slices.Clone(a)
	forged[1].Actor = "nobody"
	for i := range forged {
		if err := c.Link(&forged[i]); err != nil {
			t.Fatal(err)
		}
	}
	wantFault(t, "rewritten", export(t, forged, b, seal), k.set, 8, "was another one")
	wantFault(t, "rewritten, checkpoint first", export(t, seal, forged, b), k.set, 6, "was another one")
	wantFault(t, "rewritten, shorter", export(t, forged[:4], b, seal), k.set, 7, "cut off")
	wantFault(t, "fork", export(t, a, forged[2:3], b, seal), k.set, 6, "forked")
	wantFault(t, "inserted", export(t, a[:3], forged[3:], b, seal), k.set, 4, "entry before it was changed")
	// A rewrite of entries that no checkpoint covers is linked but unsealed, and the report says
	// so.
	if r, err := audit.Verify(join(export(t, forged, b, k.seal(t, b[1]))), k.set); err != nil || r.Unsealed != 5 {
		t.Errorf("got %+v, %v", r, err)
	}
	wantFault(t, "two checkpoints that differ", export(t, k.seal(t, a[3]), k.seal(t, forged[3]), a), k.set, 2, "names another hash")
}

//ebb:invariant I11 The verifier rejects a checkpoint without a valid signature of a known key
func TestVerifyCheckpoints(t *testing.T) {
	t.Parallel()
	k, other := newKeyring(t), newKeyring(t)
	a := link(t, "a", 2)
	good := k.seal(t, a[1])
	change := func(f func(*audit.Checkpoint)) []string {
		c := good
		c.Heads = map[string]audit.Head{"a": good.Heads["a"]}
		f(&c)
		return export(t, a, c)
	}
	parts := strings.Split(good.JWS, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	tricked := func(header string) []string {
		return change(func(c *audit.Checkpoint) { c.JWS = b64([]byte(header)) + "." + parts[1] + "." + parts[2] })
	}
	const unsigned = "not signed by a known key"
	for name, lines := range map[string][]string{
		"other key":     export(t, a, other.seal(t, a[1])),
		"other time":    change(func(c *audit.Checkpoint) { c.At = c.At.Add(1e6) }),
		"other writer":  change(func(c *audit.Checkpoint) { c.Heads = map[string]audit.Head{"b": c.Heads["a"]} }),
		"other seq":     change(func(c *audit.Checkpoint) { c.Heads["a"] = audit.Head{Seq: 1, Hash: a[0].Hash} }),
		"more heads":    change(func(c *audit.Checkpoint) { c.Heads["b"] = audit.Head{Seq: 1, Hash: a[0].Hash} }),
		"no signature":  change(func(c *audit.Checkpoint) { c.JWS = "" }),
		"alg none":      tricked(`{"alg":"none","kid":"k1","typ":"ebb-checkpoint+jwt"}`),
		"alg HS256":     tricked(`{"alg":"HS256","kid":"k1","typ":"ebb-checkpoint+jwt"}`),
		"alg EdDSA":     tricked(`{"alg":"EdDSA","kid":"k1","typ":"ebb-checkpoint+jwt"}`),
		"other typ":     tricked(`{"alg":"ES256","kid":"k1","typ":"at+jwt"}`),
		"no kid":        tricked(`{"alg":"ES256","typ":"ebb-checkpoint+jwt"}`),
		"embedded key":  tricked(`{"alg":"ES256","kid":"k1","typ":"ebb-checkpoint+jwt","jwk":{}}`),
		"crit":          tricked(`{"alg":"ES256","kid":"k1","typ":"ebb-checkpoint+jwt","crit":["b64"],"b64":false}`),
		"cut signature": change(func(c *audit.Checkpoint) { c.JWS = parts[0] + "." + parts[1] + "." }),
	} {
		wantFault(t, name, lines, k.set, 3, unsigned)
	}
	// A token of another type by the same key is no checkpoint, with any content.
	claims, _ := json.Marshal(map[string]any{"at": good.At, "heads": good.Heads})
	at, err := jose.Sign(k.signer, jose.SignHeader{Type: "at+jwt", KID: "k1"}, json.RawMessage(claims))
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, "cross-typ", change(func(c *audit.Checkpoint) { c.JWS = at }), k.set, 3, unsigned)
	text := line(t, good)
	for name, bad := range map[string]string{
		"more members": strings.Replace(text, `{"checkpoint":{`, `{"checkpoint":{"x":1,`, 1),
		"twice":        strings.Replace(text, `{"checkpoint":`, `{"checkpoint":{},"checkpoint":`, 1),
		"beside":       strings.Replace(text, `{"checkpoint":`, `{"checkpoint":null,"Checkpoint":`, 1),
		"null":         `{"checkpoint":null}`,
		"no heads":     strings.Replace(text, text[strings.Index(text, `"heads":`):strings.Index(text, `,"jws"`)], `"heads":{}`, 1),
	} {
		if _, err := audit.Verify(join(append(export(t, a), bad)), k.set); err == nil {
			t.Errorf("%s: accepted %s", name, bad)
		}
	}
	for name, heads := range map[string]map[string]audit.Head{
		"none": nil, "no hash": {"a": {Seq: 1}}, "seq 0": {"a": {Hash: a[0].Hash}}, "no writer": {"": {Seq: 1, Hash: a[0].Hash}},
	} {
		if _, err := audit.SignCheckpoint(k.signer, "k1", epoch, heads); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
}

// A key that was rotated out still proves old checkpoints.
func TestVerifyRotatedKeys(t *testing.T) {
	t.Parallel()
	old, k := newKeyring(t), newKeyring(t)
	k2, err := jose.NewKey("k2", k.signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	both, err := jose.NewKeySet(append(old.set.Keys(), k2)...)
	if err != nil {
		t.Fatal(err)
	}
	a := link(t, "a", 2)
	later, err := audit.SignCheckpoint(k.signer, "k2", epoch, map[string]audit.Head{"a": {Seq: 2, Hash: a[1].Hash}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := audit.Verify(join(export(t, a, old.seal(t, a[0]), later)), both); err != nil || !r.Whole() {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A read error is not a Fault.
func TestVerifyReadError(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	broken := errors.New("broken pipe")
	_, err := audit.Verify(io.MultiReader(join(export(t, link(t, "a", 2))), iotest.ErrReader(broken)), k.set)
	if _, fault := errors.AsType[*audit.Fault](err); fault || !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the reader", err)
	}
	// One byte at a time.
	if r, err := audit.Verify(iotest.OneByteReader(join(export(t, link(t, "a", 2)))), k.set); err != nil || r.Entries != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestSignedWithEveryAlgorithm(t *testing.T) {
	t.Parallel()
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.SignCheckpoint(p384, "k1", epoch, map[string]audit.Head{"a": {Seq: 1, Hash: strings.Repeat("0", 64)}}); err == nil {
		t.Error("signed with a key that Verify does not accept")
	}
}

func FuzzVerify(f *testing.F) {
	k := newKeyring(f)
	a := link(f, "a", 3)
	for _, lines := range [][]string{
		export(f, a, k.seal(f, a[2])), export(f, a[1:]), export(f, k.seal(f, a[1]), a), {""}, {"{}"}, {`{"checkpoint":{}}`},
	} {
		f.Add([]byte(strings.Join(lines, "\n")))
	}
	want := strings.Join(export(f, a), "\n")
	sealed := line(f, k.seal(f, a[2]))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := audit.Verify(bytes.NewReader(raw), k.set); err == nil && r.Entries == 0 && r.Whole() {
			t.Fatalf("whole without entries: %q", raw)
		}
		// Behind a checkpoint that covers it, other content is not accepted for writer a.
		r, err := audit.Verify(io.MultiReader(strings.NewReader(sealed+"\n"), bytes.NewReader(raw)), k.set)
		if err == nil && r.Whole() && r.Unsealed == 0 && len(r.Writers) == 1 {
			var got []string
			for _, l := range strings.Split(string(raw), "\n") {
				var e audit.Entry
				if e.UnmarshalJSON([]byte(l)) == nil {
					b, _ := e.MarshalJSON()
					got = append(got, string(b))
				}
			}
			if strings.Join(got, "\n") != want {
				t.Fatalf("accepted %q", raw)
			}
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	k := newKeyring(b)
	a := link(b, "a", 1000)
	raw := strings.Join(export(b, a, k.seal(b, a[999])), "\n")
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := audit.Verify(strings.NewReader(raw), k.set); err != nil {
			b.Fatal(err)
		}
	}
}
