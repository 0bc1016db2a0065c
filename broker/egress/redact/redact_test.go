package redact_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ebb-broker/ebb/broker/egress/redact"
)

const secret = `s3cr3t/+"\&<token>=Ωx`

func mustNew(t testing.TB, secrets ...string) *redact.Redactor {
	t.Helper()
	r, err := redact.New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatIsNoSecretStays(t *testing.T) {
	t.Parallel()
	r := mustNew(t, "abcdefgh12345678", "another-secret")
	for _, s := range []string{"", "abcdefgh1234567", "bcdefgh12345678", "ABCDEFGH12345678", "another-secre", strings.Repeat("abcdefgh", 100)} {
		if out, n := r.Text(s); out != s || n != 0 {
			t.Errorf("%q is %q, %d", s, out, n)
		}
	}
}

func TestNewRefusesWhatCannotBeLookedFor(t *testing.T) {
	t.Parallel()
	for _, bad := range [][]string{nil, {""}, {"1234567"}, {"long enough", "short"}, {strings.Repeat("x", 1<<18)}} {
		if r, err := redact.New(bad...); err == nil {
			t.Errorf("%d secrets: %v", len(bad), r)
		}
	}
}

// Overlapping secrets are removed completely.
func TestSecretsThatOverlap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		secrets  []string
		in, want string
		marks    int
	}{
		{[]string{"abcdefgh", "fghijklm"}, "<abcdefghijklm>", "<[redacted]>", 1},
		{[]string{"abcdefgh", "cdefghij"}, "<abcdefghij>", "<[redacted]>", 1},
		{[]string{"xxabcdefghyy", "abcdefgh"}, "<xxabcdefghyy><xxabcdefgh>", "<[redacted]><xx[redacted]>", 2},
		{[]string{"aaaaaaaa"}, "b" + strings.Repeat("a", 1000) + "c", "b[redacted]c", 1},
		{[]string{"abababab"}, "abababababX", "[redacted]X", 1},
		{[]string{"abcdefgh"}, "abcdefghabcdefgh", "[redacted][redacted]", 2},
		{[]string{"abcdefgh"}, "abcdefgabcdefgh", "abcdefg[redacted]", 1},
	} {
		r := mustNew(t, c.secrets...)
		if out, n := r.Text(c.in); out != c.want || n != c.marks {
			t.Errorf("%q: %q, %d; want %q, %d", c.in, out, n, c.want, c.marks)
		}
		for _, one := range []io.Reader{iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
			out, err := io.ReadAll(r.Reader(io.NopCloser(one), nil))
			if err != nil || string(out) != c.want {
				t.Errorf("%q in a stream: %q, %v", c.in, out, err)
			}
		}
	}
}

// cut returns data in pieces of given sizes, and its error together with the last piece.
type cut struct {
	pieces [][]byte
	err    error
}

func (c *cut) Read(p []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, c.err
	}
	n := copy(p, c.pieces[0])
	if c.pieces[0] = c.pieces[0][n:]; len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	if len(c.pieces) == 0 {
		return n, c.err
	}
	return n, nil
}

// E87: data that arrives together with an error is searched before the error is returned. Of a
// secret that the error cut off nothing is returned.
func TestErrorsHideNothing(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	r := mustNew(t, secret)
	for name, c := range map[string]struct{ in, want string }{
		"whole":    {"data: " + secret, "data: " + redact.Mark},
		"cut off":  {"data: " + secret[:len(secret)-1], "data: "},
		"harmless": {"data: all", "data: all"},
	} {
		marks := 0
		out, err := io.ReadAll(r.Reader(io.NopCloser(&cut{pieces: [][]byte{[]byte(c.in)}, err: lost}), func(n int) { marks += n }))
		if !errors.Is(err, lost) || string(out) != c.want || (marks == 1) != (name == "whole") {
			t.Errorf("%s: %q, %v, %d marks", name, out, err, marks)
		}
	}
	if _, err := io.ReadAll(r.Reader(io.NopCloser(stuck{}), nil)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a source that gives nothing: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// E84: an event is returned when it arrives, not when the next one arrives.
func TestEventsAreNotDelayed(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	stream := mustNew(t, secret).Reader(pr, nil)
	for _, event := range []string{"data: one\n\n", "data: s3cr3\n\n", "data: three\n\n"} {
		go func() { _, _ = io.WriteString(pw, event) }()
		got := make([]byte, len(event))
		if _, err := io.ReadFull(stream, got); err != nil || string(got) != event {
			t.Fatalf("%q came as %q, %v", event, got, err)
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Read(make([]byte, 1)); err == nil {
		t.Error("it reads on after Close")
	}
	if _, err := pw.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the source was not closed: %v", err)
	}
}

// E84: however a stream is split, it is marked as the whole text is, and no part of a secret
// remains in any encoding.
func FuzzReader(f *testing.F) {
	f.Add("abcdefghabcdefgabcdefgh", "abcdefgh", "fghabcde", uint64(1))
	f.Add("aaaaaaaaaaaaaaaaaaaaa", "aaaaaaaa", "aaaaaaaaa", uint64(2))
	f.Add("xYWJjZGVmZ2g=61626364656667684", "abcdefgh", "12345678", uint64(3))
	f.Add("%61b%2563&#100;e\\u0066g\\\\x68, YWJj\r\nZGVm\r\nZ2g=", "abcdefgh", "12345678", uint64(4))
	f.Add("31 32 33:34-35=\n36\n37-38, 3%331\n32333435363738", "abcdefgh", "12345678", uint64(5))
	f.Fuzz(func(t *testing.T, text, a, b string, seed uint64) {
		if len(a) < redact.MinSecret || len(b) < redact.MinSecret || len(a)+len(b) > 200 {
			return
		}
		r := mustNew(t, a, b)
		want, marks := r.Text(text)
		for _, e := range encodings {
			for _, s := range []string{e.of(a), e.of(b)} {
				for _, part := range strings.Split(want, redact.Mark) {
					if strings.Contains(part, s) {
						t.Fatalf("%s of a secret is left in %q: %q", e.name, part, s)
					}
				}
			}
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		var pieces [][]byte
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(9))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		for _, room := range rooms {
			got := 0
			out, err := drain(r.Reader(io.NopCloser(&cut{pieces: slices.Clone(pieces), err: io.EOF}), func(n int) { got += n }), room)
			if err != nil || !as(out, want) || got != marks {
				t.Fatalf("%q in pieces, read by %d: %q (%d marks), %v; want %q (%d)", text, room, out, got, err, want, marks)
			}
		}
	})
}

// as reports whether a stream was marked as the whole text is. It accepts a stream that was split
// within the first characters of a double encoding, or at the end of a line: these characters may
// have been returned.
func as(out, want string) bool {
	got, parts := strings.Split(out, redact.Mark), strings.Split(want, redact.Mark)
	if len(got) != len(parts) {
		return false
	}
	for i, part := range parts {
		if !strings.HasPrefix(got[i], part) || len(got[i]) > len(part)+50 || i == len(parts)-1 && got[i] != part {
			return false
		}
	}
	return true
}

// random returns n characters of those in tokens, the same for each seed.
func random(seed uint64, n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(out)
}

// A token of 8 KiB is found in every form, in whole texts and in streams, and no part of it
// remains. A token that differs in the last byte is unchanged.
func TestLongSecrets(t *testing.T) {
	t.Parallel()
	for _, s := range []string{random(1, 1200), random(2, 4096), random(3, 8<<10), strings.Repeat("ab", 4<<10), strings.Repeat("x", 8<<10), strings.Repeat("é", 4<<10)} {
		r := mustNew(t, s)
		for _, e := range encodings {
			marks := 0
			out, err := io.ReadAll(r.Reader(io.NopCloser(iotest.HalfReader(strings.NewReader("before "+e.of(s)+" after"))), func(n int) { marks += n }))
			if err != nil || marks != 1 || len(out) > len("before  after")+len(redact.Mark)+24 {
				t.Errorf("%s of %d bytes: %d marks, %d bytes, %v", e.name, len(s), marks, len(out), err)
			}
		}
		other := s[:len(s)-2] + "!!"
		if out, n := r.Text(other); n != 0 || out != other {
			t.Errorf("another of %d bytes: %d marks", len(s), n)
		}
	}
}

// BenchmarkNew measures the memory of a Redactor for a token, and the time to build it, which is
// spent once for a lease.
func BenchmarkNew(b *testing.B) {
	for _, n := range []int{40, 520, 1200, 4096, 8 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := random(1, n)
			var r *redact.Redactor
			for b.Loop() {
				r = mustNew(b, s)
			}
			b.ReportMetric(float64(r.Bytes()), "table-bytes")
		})
	}
}

// All pairs of words of two letters, up to seven characters long: where one begins or ends in the
// other, the automaton finds what an exhaustive search finds.
//
//ebb:invariant I8 The redactor finds a secret that begins inside the encoded form of another secret
func TestPairs(t *testing.T) {
	t.Parallel()
	var words []string
	for n := 4; n <= 7; n++ {
		for bits := range 1 << n {
			w := make([]byte, n)
			for i := range w {
				w[i] = 'a' + byte(bits>>i&1)
			}
			words = append(words, string(w))
		}
	}
	for i, w := range words {
		for _, v := range words[i%5*7:] {
			if len(v) <= len(w) {
				continue
			}
			a, err := redact.Ends([]string{w, v}, v+w+v[1:])
			if want := ends([]string{w, v}, v+w+v[1:]); err != nil || !slices.Equal(a, want) {
				t.Fatalf("%q and %q: %v, %v; want %v", w, v, a, err, want)
			}
		}
	}
}

// ends returns, for each byte of text, the length of the longest word that ends with it.
func ends(words []string, text string) []int {
	out := make([]int, len(text))
	for i := range out {
		for _, w := range words {
			if strings.HasSuffix(text[:i+1], w) {
				out[i] = max(out[i], len(w))
			}
		}
	}
	return out
}

//ebb:invariant I8 The redactor finds a secret that begins inside the encoded form of another secret
func TestOneBehindTheOther(t *testing.T) {
	t.Parallel()
	for _, secrets := range [][]string{{"abcdefghijkl", "bcdefghi"}, {"bcdefghi", "abcdefghijkl"}} {
		if out, n := mustNew(t, secrets...).Text("--abcdefghi--"); n != 1 || strings.Contains(out, "bcdefghi") {
			t.Errorf("%v: %q, %d marks", secrets, out, n)
		}
	}
}
