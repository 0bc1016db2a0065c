package audit_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/audit"
)

var update = flag.Bool("update", false, "rewrite the golden files; stored encodings never change, so only for new ones")

var epoch = time.Date(2026, 3, 4, 5, 6, 7, 8_900_000, time.UTC)

func entry(kind string, data string) audit.Entry {
	e := audit.Entry{At: epoch, Kind: kind, Actor: "ci"}
	if data != "" {
		e.Data = json.RawMessage(data)
	}
	return e
}

// link makes a chain of n entries.
func link(t testing.TB, writer string, n int) []audit.Entry {
	t.Helper()
	c, err := audit.NewChain(writer)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]audit.Entry, n)
	for i := range out {
		out[i] = entry(audit.LeaseIssued, `{"n":1}`)
		out[i].At = epoch.Add(time.Duration(i) * time.Second)
		out[i].LeaseID = "lse_1"
		if err := c.Link(&out[i]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

type keyring struct {
	signer crypto.Signer
	set    jose.KeySet
}

func newKeyring(t testing.TB) keyring {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := jose.NewKey("k1", k.Public())
	if err != nil {
		t.Fatal(err)
	}
	set, err := jose.NewKeySet(pub)
	if err != nil {
		t.Fatal(err)
	}
	return keyring{k, set}
}

func (k keyring) seal(t testing.TB, last ...audit.Entry) audit.Checkpoint {
	t.Helper()
	heads := map[string]audit.Head{}
	for _, e := range last {
		heads[e.Writer] = audit.Head{Seq: e.Seq, Hash: e.Hash}
	}
	c, err := audit.SignCheckpoint(k.signer, "k1", epoch.Add(time.Hour), heads)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// line encodes an entry or a checkpoint as a line of an export.
func line(t testing.TB, v any) string {
	t.Helper()
	if c, ok := v.(audit.Checkpoint); ok {
		v = map[string]any{"checkpoint": c}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func export(t testing.TB, parts ...any) []string {
	t.Helper()
	var lines []string
	for _, p := range parts {
		if es, ok := p.([]audit.Entry); ok {
			for _, e := range es {
				lines = append(lines, line(t, e))
			}
			continue
		}
		lines = append(lines, line(t, p))
	}
	return lines
}

func join(lines []string) *bytes.Reader {
	return bytes.NewReader([]byte(strings.Join(lines, "\n") + "\n"))
}

func TestKinds(t *testing.T) {
	t.Parallel()
	kinds := audit.Kinds()
	if !slices.IsSorted(kinds) || len(slices.Compact(slices.Clone(kinds))) != len(kinds) {
		t.Errorf("the table is not sorted or has a kind twice: %q", kinds)
	}
	for _, k := range kinds {
		noun, verb, ok := strings.Cut(k, ".")
		if !ok || noun == "" || verb == "" || strings.Trim(noun+verb, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("kind %q is not noun.verb", k)
		}
		if !audit.Known(k) {
			t.Errorf("%q is not known", k)
		}
	}
	for _, k := range []string{"", "lease", "lease.", "lease.stolen", "LEASE.ISSUED"} {
		if audit.Known(k) {
			t.Errorf("%q is known", k)
		}
	}
}

// Kinds contains exactly the constants: a kind that is missing from it could not be recorded.
func TestKindsAreAllConstants(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("kind.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, l := range strings.Split(string(src), "\n") {
		if _, rest, ok := strings.Cut(l, `= "`); ok {
			value, _, _ := strings.Cut(rest, `"`)
			declared = append(declared, value)
		}
	}
	slices.Sort(declared)
	if got := audit.Kinds(); !slices.Equal(got, declared) {
		t.Errorf("Kinds has %q\nconstants are %q", got, declared)
	}
}

// slowSum is Sum as RFC 8785 defines it, through encoding/json and jcs.
func slowSum(t testing.TB, e audit.Entry) string {
	t.Helper()
	m := map[string]any{
		"at": e.At.UTC().Format("2006-01-02T15:04:05.000Z"), "kind": e.Kind, "actor": e.Actor,
		"writer": e.Writer, "seq": e.Seq, "prev": e.Prev,
	}
	for k, v := range map[string]string{"task_id": e.TaskID, "lease_id": e.LeaseID, "request_id": e.RequestID} {
		if v != "" {
			m[k] = v
		}
	}
	if len(e.Data) > 0 {
		m["data"] = e.Data
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	canon, err := jcs.Transform(raw)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canon)
	return hex.EncodeToString(sum[:])
}

func TestSumIsSHA256OfCanonicalJSON(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		``, `{}`, `{"a":1}`, `{"b":2,"a":1}`, ` { "b" : [1, 2.50, -0, 1e3 , "x\u00e9\/" ], "a":{"z":null,"y":true} } `,
		`{"é":1,"z":2,"\ud83c\udf0a":3,"\uffff":4}`, `{"a":"<&>\u2028\\\"\n\u0001"}`, `{"a":123456789012345}`, `{"a":0.1,"b":1e21}`,
		`{"a":9007199254740992}`, `{"":""}`,
	} {
		e := entry(audit.TaskOpened, data)
		e.Actor, e.TaskID, e.Writer, e.Seq, e.Prev = `a"\<é🌊>`, "tsk_1", "w", 7, strings.Repeat("ab", 32)
		if got, want := audit.Sum(e), slowSum(t, e); got == "" || got != want {
			t.Errorf("data %s: got %q, want %q", data, got, want)
		}
	}
	for _, data := range []string{
		`null`, `[]`, `1`, `"x"`, `{`, `{}x`, `{"a":1,"a":2}`, `{"a":9007199254740993}`, `{"a":0.12345678901234567890}`, `{"a":1e400}`, `{"a":1e-400}`,
		`{"a":01}`, `{"a":NaN}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"a":"` + strings.Repeat("x", audit.MaxData) + `"}`,
		strings.Repeat(`{"a":`, 100000) + "1" + strings.Repeat("}", 100000),
	} {
		if got := audit.Sum(entry(audit.TaskOpened, data)); got != "" {
			t.Errorf("data %.60s: got the sum %q, want none", data, got)
		}
	}
}

func TestDraftRefuses(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]audit.Entry{
		"kind":     entry("lease.stolen", ""),
		"no kind":  entry("", ""),
		"no actor": {At: epoch, Kind: audit.TaskOpened},
		"no time":  {Kind: audit.TaskOpened, Actor: "ci"},
		"control":  {At: epoch, Kind: audit.TaskOpened, Actor: "c\x00i"},
		"utf-8":    {At: epoch, Kind: audit.TaskOpened, Actor: "c\xffi"},
		"long":     {At: epoch, Kind: audit.TaskOpened, Actor: "ci", TaskID: strings.Repeat("x", audit.MaxName+1)},
		"data":     entry(audit.TaskOpened, "[]"),
	} {
		if _, err := audit.Draft(e); err == nil {
			t.Errorf("%s: drafted", name)
		}
		c, _ := audit.NewChain("w")
		for _, first := range []bool{true, false} {
			last := c.Head()
			if err := c.Link(&e); err == nil || c.Head() != last {
				t.Errorf("%s: linked, as the first entry %t", name, first)
			}
			before := entry(audit.TaskOpened, "")
			if err := c.Link(&before); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := audit.NewChain(""); err == nil {
		t.Error("a chain without a writer")
	}
	e := entry(audit.TaskOpened, "")
	if err := new(audit.Chain).Link(&e); err == nil {
		t.Error("the zero chain links")
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	c, err := audit.NewChain("w")
	if err != nil {
		t.Fatal(err)
	}
	a, b := entry(audit.TaskOpened, `{"b":1, "a":2}`), entry(audit.TaskClosed, "")
	b.At = epoch.Add(-time.Hour) // overtaken
	for _, e := range []*audit.Entry{&a, &b} {
		if err := c.Link(e); err != nil {
			t.Fatal(err)
		}
	}
	if a.Seq != 1 || a.Prev != "" || b.Seq != 2 || b.Prev != a.Hash || a.Hash != audit.Sum(a) || b.Hash != audit.Sum(b) {
		t.Errorf("not linked: %+v %+v", a, b)
	}
	if want := epoch.Truncate(time.Millisecond); !a.At.Equal(want) || !b.At.Equal(want) {
		t.Errorf("got times %v and %v, want %v twice", a.At, b.At, want)
	}
	if string(a.Data) != `{"a":2,"b":1}` {
		t.Errorf("data %s is not canonical", a.Data)
	}
	mark := c.Mark()
	lost := entry(audit.TaskOpened, "")
	if err := c.Link(&lost); err != nil {
		t.Fatal(err)
	}
	c.Reset(mark)
	r, err := audit.ResumeChain(b)
	if err != nil {
		t.Fatal(err)
	}
	if r.Head() != c.Head() || r.Writer() != "w" {
		t.Errorf("resumed at %v, want %v", r.Head(), c.Head())
	}
	b.Actor = "somebody else"
	if _, err := audit.ResumeChain(b); err == nil {
		t.Error("resumed after an altered entry")
	}
}

func TestEntryJSON(t *testing.T) {
	t.Parallel()
	good := link(t, "w", 1)[0]
	raw, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	var back audit.Entry
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(back); !bytes.Equal(again, raw) || audit.Sum(back) != back.Hash {
		t.Errorf("got %s, want %s", again, raw)
	}
	indented := bytes.Buffer{}
	_ = json.Indent(&indented, raw, "", "  ")
	if err := json.Unmarshal(indented.Bytes(), &back); err != nil {
		t.Errorf("indented: %v", err)
	}
	text := string(raw)
	for name, bad := range map[string]string{
		"unknown member":   strings.Replace(text, `{`, `{"more":1,`, 1),
		"duplicate member": strings.Replace(text, `{`, `{"actor":"ci",`, 1),
		"other case":       strings.Replace(text, `"actor"`, `"Actor"`, 1),
		"other time":       strings.Replace(text, `.008Z`, `.0080Z`, 1),
		"finer time":       strings.Replace(text, `.008Z`, `.0081Z`, 1),
		"other zone":       strings.Replace(text, `T05:06:07.008Z`, `T06:06:07.008+01:00`, 1),
		"seq as text":      strings.Replace(text, `"seq":1`, `"seq":"1"`, 1),
		"seq as float":     strings.Replace(text, `"seq":1`, `"seq":1.5`, 1),
		"null data":        strings.Replace(text, `{"n":1}`, `null`, 1),
		"empty optional":   strings.Replace(text, `"lse_1"`, `""`, 1),
		"two values":       text + text,
		"null":             "null",
	} {
		if bad == text {
			t.Fatalf("%s: the case changes nothing", name)
		}
		var e audit.Entry
		if err := e.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s: read %s", name, bad)
		}
	}
}

// Stored encodings never change by accident.
func TestGolden(t *testing.T) {
	t.Parallel()
	c, _ := audit.NewChain("ebb-golden")
	es := []audit.Entry{
		entry(audit.BrokerStarted, `{"version":"1"}`),
		entry(audit.LeaseIssued, `{"scope":"orders:eu/1:read","exp":"2026-03-04T05:16:07Z","n":[1,2.5,true,null],"é":"\u003c🌊\u0001"}`),
		entry(audit.LeaseRevoked, ""),
	}
	es[1].TaskID, es[1].LeaseID, es[1].RequestID, es[1].Actor = "tsk_1", "lse_1", "req_1", `a"b\c`
	var out bytes.Buffer
	heads := map[string]audit.Head{}
	for i := range es {
		if err := c.Link(&es[i]); err != nil {
			t.Fatal(err)
		}
		b, err := es[i].MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(b, '\n'))
		heads[es[i].Writer] = audit.Head{Seq: es[i].Seq, Hash: es[i].Hash}
	}
	cp, err := audit.Checkpoint{At: epoch, Heads: heads, JWS: "a.b.c"}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	out.Write(append(cp, '\n'))
	const name = "testdata/chain.jsonl"
	if *update {
		if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.Bytes(), want)
	}
}

func FuzzCanonicalData(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"b":[true,{"c":"d"}]}`, `{"b":1,"a":2}`, `{"a":-0}`, `{"é":1}`, `{"a":"\u0041"}`, `{"a":1e5,"b":123456789012345678}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := audit.Draft(entry(audit.TaskOpened, string(raw)))
		if err != nil || len(e.Data) == 0 {
			return
		}
		want, err := jcs.Transform(raw)
		if err != nil {
			t.Fatalf("Draft accepted data that is not JSON: %q: %v", raw, err)
		}
		if !bytes.Equal(e.Data, want) {
			t.Fatalf("got %q, want %q", e.Data, want)
		}
	})
}

func BenchmarkSum(b *testing.B) {
	e := entry(audit.LeaseIssued, `{"cnf":{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"},"exp":"2026-03-04T05:16:07Z","provider":"orders","resource":"https://orders.example/","rules":"policy0","scope":"orders:eu/1:read","tool":"curl","txn":"txn_0123456789abcdef"}`)
	e.Actor, e.TaskID, e.LeaseID = "sbx_019adc8f6f7a7c1d8f2f4b5c6d7e8f90", "tsk_019adc8f6f7a7c1d8f2f4b5c6d7e8f90", "lse_019adc8f6f7a7c1d8f2f4b5c6d7e8f91"
	e.Writer, e.Seq, e.Prev = "ebb-0123456789", 12345, strings.Repeat("ab", 32)
	b.Run("sum", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			audit.Sum(e)
		}
	})
	b.Run("jcs", func(b *testing.B) {
		for b.Loop() {
			slowSum(b, e)
		}
	})
	b.Run("link", func(b *testing.B) {
		b.ReportAllocs()
		c, _ := audit.NewChain("w")
		for b.Loop() {
			next := e
			_ = c.Link(&next)
		}
	})
}
