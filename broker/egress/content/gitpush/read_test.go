package gitpush_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/gitpush"
)

// source is a body that counts how much is read, and whether it is closed.
type source struct {
	io.Reader
	read   int
	closed bool
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	s.read += n
	return n, err
}

func (s *source) Close() error {
	s.closed = true
	return nil
}

const tree, base = "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "1111111111111111111111111111111111111111"

// usual is a push of three refs and n commits, with more data behind them.
func usual(n int, more string) string {
	k := newPacker(40)
	id := base
	for i := range n {
		id = k.commit(tree, fmt.Sprintf("Fix the %d. problem of many\n\nIt has a reason, which this text gives in some more words.", i), id)
	}
	k.raw(head(2, len(more)) + more)
	return body(k.pack(), cmd(base, id, "refs/heads/main"), cmd(zero, id, "refs/heads/feature/one"), cmd(base, zero, "refs/heads/old"))
}

// TestRest: the judged bytes and the unread rest are forwarded, in pieces of any size.
func TestRest(t *testing.T) {
	t.Parallel()
	text := usual(20, strings.Repeat("rest of the pack", 1<<18))
	for name, reader := range map[string]io.Reader{
		"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)), "halves": iotest.HalfReader(strings.NewReader(text)), "early end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := &source{Reader: reader}, request("")
			r.Body, r.ContentLength = s, int64(len(text))
			facts, err := gitpush.Read(t.Context(), r, nil)
			if err != nil || len(facts.Operations) != 3 || facts.Operations[0].Details["commits"] != "20" || s.read > 64<<10 {
				t.Fatalf("%+v, %v, after %d bytes", facts, err, s.read)
			}
			left, err := io.ReadAll(r.Body)
			if err != nil || string(left) != text || r.ContentLength != int64(len(text)) {
				t.Errorf("%d of %d bytes are forwarded, with the length %d: %v", len(left), len(text), r.ContentLength, err)
			}
			if err := r.Body.Close(); err != nil || !s.closed {
				t.Errorf("the body is not closed: %v", err)
			}
		})
	}
}

// TestBound: no more than 1 MiB is read, however many commits there are.
func TestBound(t *testing.T) {
	t.Parallel()
	k := newPacker(40)
	for i := range 1000 {
		var noise strings.Builder
		for j := range 400 {
			noise.WriteString(k.sum("blob", fmt.Sprint(i, j)))
		}
		k.commit(tree, noise.String(), base)
	}
	text := body(k.pack(), cmd(base, strings.Repeat("2", 40), "refs/heads/main"))
	s, r := &source{Reader: strings.NewReader(text)}, request("")
	r.Body = s
	facts, err := gitpush.Read(t.Context(), r, nil)
	if err != nil || facts.Operations[0].Details["why"] != "too-large" || s.read > 1<<20 {
		t.Fatalf("%+v, %v, after %d bytes", facts, err, s.read)
	}
	if left, err := io.ReadAll(r.Body); err != nil || string(left) != text {
		t.Errorf("%d of %d bytes are forwarded: %v", len(left), len(text), err)
	}
}

// TestFull: commands that fill the limit are refused, with and without a pack behind them.
func TestFull(t *testing.T) {
	t.Parallel()
	for fill := 1<<20 - 3; fill < 1<<20+3; fill++ {
		text := pkt("push-cert\x00") + pkt("certificate version 0.1\n")
		end := pkt("\n") + pkt(cmd(base, zero, "refs/heads/x")+"\n") + pkt("-----BEGIN SSH SIGNATURE-----\n") + pkt("-----END SSH SIGNATURE-----\n") + pkt("push-cert-end\n") + "0000"
		for rest := fill - len(text) - len(end); rest > 0; {
			n := min(rest, 1000)
			if rest-n < 20 {
				n = rest
			}
			text += pkt("pusher " + strings.Repeat("x", n-12) + "\n")
			rest -= n
		}
		_, err := gitpush.Read(t.Context(), request(text+end), nil)
		if refusal := (*content.Error)(nil); len(text+end) != fill || (err == nil) != (fill < 1<<20) || err != nil && !errors.As(err, &refusal) {
			t.Errorf("%d bytes: %v", fill, err)
		}
		created := strings.Replace(text+end, base+" "+zero, zero+" "+base, 1) + empty
		_, err = gitpush.Read(t.Context(), request(created), nil)
		if refusal := (*content.Error)(nil); err != nil && !errors.As(err, &refusal) {
			t.Errorf("%d bytes and a pack: %v", fill, err)
		}
	}
}

// TestBrokenBody: a body that fails is no refusal, and the failure is kept.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	text := usual(3, "")
	for n := range len(text) - 30 {
		r := request("")
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(text[:n]), iotest.ErrReader(broken)))
		if _, err := gitpush.Read(t.Context(), r, nil); err != nil && !errors.Is(err, broken) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// TestAncestor: the server is asked for the commits around those in the pack only, and its failure is
// no permission.
func TestAncestor(t *testing.T) {
	t.Parallel()
	k := newPacker(40)
	parents := []string{}
	for i := range 40 {
		parents = append(parents, fmt.Sprintf("%040x", i+1))
	}
	id := k.commit(tree, "merge", parents...)
	text := body(k.pack(), cmd(base, id, "refs/heads/main"), cmd(zero, id, "refs/heads/y"), cmd(base, id, "refs/tags/v1"))
	asked, down := 0, errors.New("server is down")
	for _, answer := range []struct {
		yes  bool
		err  error
		want string
	}{{true, nil, "update"}, {false, nil, "force"}, {true, down, ""}} {
		facts, err := gitpush.Read(t.Context(), request(text), func(_ context.Context, old string, heads []string) (bool, error) {
			if asked++; old != base || len(heads) != 16 || heads[0] != parents[0] {
				t.Errorf("asked for %s in %v", old, heads)
			}
			return answer.yes, answer.err
		})
		if !errors.Is(err, answer.err) || err == nil && facts.Operations[0].Action != answer.want {
			t.Errorf("%+v, %v; want %q", facts, err, answer.want)
		}
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	for _, none := range []string{usual(5, ""), body("", cmd(base, zero, "refs/heads/x")), "0000"} {
		if _, err := gitpush.Read(t.Context(), request(none), func(context.Context, string, []string) (bool, error) { return false, down }); err != nil {
			t.Error(err)
		}
	}
}

// TestSteps: 100 refs with a history full of merges end in bounded work.
func TestSteps(t *testing.T) {
	t.Parallel()
	k := newPacker(40)
	ids := []string{base}
	for i := range 2000 {
		ids = append(ids, k.commit(tree, fmt.Sprint(i), ids[max(0, len(ids)-8):]...))
	}
	commands := []string{}
	for i := range content.MaxOperations {
		commands = append(commands, cmd(strings.Repeat("3", 40), ids[len(ids)-1], fmt.Sprint("refs/heads/b", i)))
	}
	facts, err := gitpush.Read(t.Context(), request(body(k.pack(), commands...)), nil)
	if err != nil || facts.Operations[0].Details["why"] != "not-proven" || facts.Operations[99].Details["why"] != "too-large" {
		t.Errorf("%v, %v", facts.Operations, err)
	}
}

// TestFIPS: without SHA-1 nothing is proven, and pushes pass as forced.
func TestFIPS(t *testing.T) {
	if !counterpart.FIPSOnly(t) {
		return
	}
	facts, err := gitpush.Read(t.Context(), request(body("PACK\x00\x00\x00\x02\x00\x00\x00\x00"+strings.Repeat("x", 20), cmd(base, strings.Repeat("2", 40), "refs/heads/main"))), nil)
	if err != nil || facts.Operations[0].Action != "force" {
		t.Errorf("%+v, %v", facts, err)
	}
}

// TestMutations: a push with one byte changed, removed or added is refused, or acts as its facts say.
func TestMutations(t *testing.T) {
	t.Parallel()
	h := newTarget(t)
	k := newPacker(40)
	c := k.commit(h.tree, "c", h.b)
	plain := pkt(cmd(h.b, c, "refs/heads/main")+"\x00 atomic") + pkt(cmd(h.a, zero, "refs/heads/x"))
	signed := strings.ReplaceAll(certificate(certHead+"|"+cmd(h.b, c, "refs/heads/main")+"\n|"+certSign, pkt("push-cert-end\n")), caps, " atomic")
	judged, landings := 0, 0
	for _, commands := range []string{plain, signed} {
		for i := range len(commands) {
			for _, mutant := range []string{
				"", "\x00" + commands[i:i+1], commands[i:i+1] + "\n", commands[i:i+1] + commands[i:i+1], "0000" + commands[i:i+1],
				"\x00", "\n", " ", "0", "1", "F", "/", "~", "\x80", "\t", string([]byte{commands[i] ^ 0x20}), string([]byte{commands[i] ^ 1}),
			} {
				text := commands[:i] + mutant + commands[i+1:] + "0000" + k.pack()
				judged++
				r := request(text)
				if _, err := gitpush.Read(t.Context(), r, nil); err != nil {
					continue
				}
				if landings++; landings%5 != 0 { // a sample: a landing starts git several times
					continue
				}
				if _, _, err := h.land(t, request(text)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	t.Logf("%d pushes, %d accepted", judged, landings)
}

var refName = regexp.MustCompile("^refs(/[^\x00-\x20\x7f~^:?*\\[\\\\/.-][^\x00-\x20\x7f~^:?*\\[\\\\/]*){2,}$")

// FuzzRead: no body makes Read fail otherwise than with a refusal, and an accepted one is forwarded
// as it was judged.
func FuzzRead(f *testing.F) {
	k := newPacker(40)
	id := k.commit(tree, "a", base)
	k.refDelta(id, deltaOf(commitText(tree, "a", base), commitText(tree, "b", base)))
	long := newPacker(64)
	sha256 := body(long.pack(), cmd(zero+zero[:24], long.commit(tree+tree[:24], "a"), "refs/heads/main")+"\x00 object-format=sha256")
	for _, text := range []string{
		usual(3, "more"), sha256, "0000", body("", cmd(base, zero, "refs/heads/x")), body(k.pack(), cmd(base, id, "refs/heads/x")),
		certificate(certHead+"|"+cmd(base, id, "refs/heads/x")+"\n|"+certSign, pkt("push-cert-end\n")+"0000"+k.pack()), pkt("shallow "+base) + usual(2, ""),
	} {
		f.Add([]byte(text), false)
		f.Add([]byte(compress(text)), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, compressed bool) {
		r := request("")
		s := &source{Reader: bytes.NewReader(data)}
		r.Body = s
		want := data
		if compressed {
			r.Header.Set("Content-Encoding", "gzip")
		}
		facts, err := gitpush.Read(t.Context(), r, nil)
		if err != nil {
			if refusal := (*content.Error)(nil); !errors.As(err, &refusal) {
				t.Fatalf("no refusal: %v", err)
			}
			return
		}
		if compressed {
			z, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if want, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		} else if s.read > 1<<20 {
			t.Fatalf("%d bytes were read", s.read)
		}
		checkFacts(t, facts.Facts)
		if left, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(left, want) {
			t.Fatalf("%q is forwarded, %q came: %v", left, want, err)
		}
	})
}

// checkFacts checks the bounds of accepted facts.
func checkFacts(t *testing.T, facts content.Facts) {
	t.Helper()
	if facts.Kind != "gitpush" || len(facts.Operations) > content.MaxOperations {
		t.Fatalf("%d operations of %q", len(facts.Operations), facts.Kind)
	}
	for _, op := range facts.Operations {
		before, after := op.Details["old"]+op.Details["stated"] != "", op.Details["new"] != ""
		want := map[[2]bool]string{{false, true}: "create", {true, false}: "delete", {true, true}: "update"}[[2]bool{before, after}]
		if !refName.MatchString(op.Object) || len(op.Object) > content.MaxObject || op.Action != want && (want != "update" || op.Action != "force" || op.Details["why"] == "") {
			t.Fatalf("%+v", op)
		}
	}
}

// BenchmarkRead judges a usual push: 3 refs and 20 commits.
func BenchmarkRead(b *testing.B) {
	text := usual(20, strings.Repeat("rest of the pack", 1000))
	r := request("")
	b.ReportAllocs()
	for b.Loop() {
		one := http.Request{Header: r.Header, Body: io.NopCloser(strings.NewReader(text))}
		if facts, err := gitpush.Read(b.Context(), &one, nil); err != nil || facts.Operations[0].Action != "update" {
			b.Fatal(facts, err)
		}
	}
}

// BenchmarkWorst judges the push that takes longest: as many commits and steps as are read.
func BenchmarkWorst(b *testing.B) {
	k := newPacker(40)
	ids := []string{base}
	for i := range 8190 {
		ids = append(ids, k.commit(tree, fmt.Sprint(i), ids[max(0, len(ids)-3):]...))
	}
	commands := []string{}
	for i := range content.MaxOperations {
		commands = append(commands, cmd(strings.Repeat("3", 40), ids[len(ids)-1], fmt.Sprint("refs/heads/b", i)))
	}
	text := body(k.pack(), commands...)
	r := request("")
	b.ReportAllocs()
	for b.Loop() {
		one := http.Request{Header: r.Header, Body: io.NopCloser(strings.NewReader(text))}
		if _, err := gitpush.Read(b.Context(), &one, nil); err != nil {
			b.Fatal(err)
		}
	}
}
