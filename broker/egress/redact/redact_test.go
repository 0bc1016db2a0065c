package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"ebb/broker/egress/redact"
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

// echoes are forms in which servers give back what they got.
func echoes(s string) map[string]string {
	jsonOf := func(escape bool) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(escape)
		_ = e.Encode(s)
		return strings.TrimSpace(b.String())
	}
	out := map[string]string{
		"as it is": s, "basic": base64.StdEncoding.EncodeToString([]byte("x-access-token:" + s)), "basic, user": base64.StdEncoding.EncodeToString([]byte(s + ":")),
		"hex": hex.EncodeToString([]byte(s)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(s))), "query": url.QueryEscape(s), "path": url.PathEscape(s),
		"json": jsonOf(true), "json, plain": jsonOf(false), "json, slash": strings.ReplaceAll(jsonOf(false), "/", `\/`), "html": html.EscapeString(s),
	}
	for before := range 7 {
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			out[fmt.Sprintf("base64 %d %p", before, e)] = e.EncodeToString([]byte(strings.Repeat("a", before) + s + "tail"))
		}
	}
	var utf16 []byte
	for _, r := range s {
		utf16 = append(utf16, byte(r), byte(r>>8))
	}
	out["utf-16"] = string(utf16)
	return out
}

// E83 and E85: a secret is found in whatever form servers give it back, and nothing beside it goes.
func TestFormsOfASecret(t *testing.T) {
	t.Parallel()
	for _, s := range []string{secret, "ghp_0123456789abcdefghijABCDEFGHIJ123456", "AKIA/secret+key=="} {
		r := mustNew(t, s)
		for name, echo := range echoes(s) {
			out, n := r.Text("before " + echo + " after")
			if n != 1 || !strings.HasPrefix(out, "before ") || !strings.HasSuffix(out, " after") || len(out) > len("before  after")+len(redact.Mark)+24 {
				t.Errorf("%s of %q: %d marks in %q", name, s, n, out)
			}
		}
	}
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

// Secrets that lie in each other leave nothing of themselves.
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

// cut reads in pieces of given sizes and ends with an error of its own, beside the last.
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

// E87: a secret that comes beside an error is looked at before the error is; and of one that
// the error cut off nothing is given on.
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

// E84: an event is given on when it is there, not when the next one comes.
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

// naive finds every secret at every place, joins those that overlap, and marks them.
func naive(text string, patterns ...string) string {
	type part struct{ from, to int }
	var parts []part
	for i := range len(text) {
		longest := 0
		for _, p := range patterns {
			if strings.HasPrefix(text[i:], p) {
				longest = max(longest, len(p))
			}
		}
		if n := len(parts); longest > 0 && n > 0 && i < parts[n-1].to {
			parts[n-1].to = max(parts[n-1].to, i+longest)
		} else if longest > 0 {
			parts = append(parts, part{i, i + longest})
		}
	}
	var b strings.Builder
	at := 0
	for _, p := range parts {
		b.WriteString(text[at:p.from] + redact.Mark)
		at = p.to
	}
	return b.String() + text[at:]
}

// E84: however a stream is cut, it is marked as the whole text is, and that as a search for
// every secret at every place says.
func FuzzReader(f *testing.F) {
	f.Add("abcdefghabcdefgabcdefgh", "abcdefgh", "fghabcde", uint64(1))
	f.Add("aaaaaaaaaaaaaaaaaaaaa", "aaaaaaaa", "aaaaaaaaa", uint64(2))
	f.Add("xYWJjZGVmZ2g=61626364656667684", "abcdefgh", "12345678", uint64(3))
	f.Fuzz(func(t *testing.T, text, a, b string, seed uint64) {
		if len(a) < redact.MinSecret || len(b) < redact.MinSecret || len(a)+len(b) > 200 {
			return
		}
		r := mustNew(t, a, b)
		want, marks := r.Text(text)
		if strings.Contains(want, a) && !strings.Contains(redact.Mark, a) && !strings.Contains(a, redact.Mark[:1]) && !strings.Contains(a, redact.Mark[9:]) {
			t.Fatalf("%q is left in %q", a, want)
		}
		if full := naive(text, append(redact.Forms(a), redact.Forms(b)...)...); full != want {
			t.Fatalf("%q is %q, want %q", text, want, full)
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
			if err != nil || out != want || got != marks {
				t.Fatalf("%q in pieces, read by %d: %q (%d marks), %v; want %q (%d)", text, room, out, got, err, want, marks)
			}
		}
	})
}

// random is a text of so many characters as tokens have them, the same for each seed.
func random(seed uint64, n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(out)
}

// A token of 8 KiB is found in every form, whole and in streams, and none of it is left;
// one that differs in its last byte stays.
func TestLongSecrets(t *testing.T) {
	t.Parallel()
	for _, s := range []string{random(1, 1200), random(2, 4096), random(3, 8<<10), strings.Repeat("ab", 4<<10), strings.Repeat("x", 8<<10), strings.Repeat("é", 4<<10)} {
		r := mustNew(t, s)
		for name, echo := range echoes(s) {
			marks := 0
			out, err := io.ReadAll(r.Reader(io.NopCloser(iotest.HalfReader(strings.NewReader("before "+echo+" after"))), func(n int) { marks += n }))
			if err != nil || marks != 1 || len(out) > len("before  after")+len(redact.Mark)+24 {
				t.Errorf("%s of %d bytes: %d marks, %d bytes, %v", name, len(s), marks, len(out), err)
			}
		}
		other := s[:len(s)-2] + "!!"
		if out, n := r.Text(other); n != 0 || out != other {
			t.Errorf("another of %d bytes: %d marks", len(s), n)
		}
	}
}

// What it takes to look for a token: memory, and the time to make it once for a lease.
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

func BenchmarkReader(b *testing.B) {
	words := []byte(strings.Repeat(`{"id": 4711, "name": "a repository", "private": false, "html_url": "https://github.com/acme/web"},`+"\n", 700))
	random := make([]byte, 64<<10)
	rng := rand.NewChaCha8([32]byte{})
	_, _ = rng.Read(random)
	for name, text := range map[string][]byte{"json": words, "random": random} {
		for _, n := range []int{1, 4} {
			secrets := make([]string, n)
			for i := range secrets {
				secrets[i] = fmt.Sprintf("ghs_%d%s", i, strings.Repeat("aB3", 12))
			}
			r := mustNew(b, secrets...)
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := io.Copy(io.Discard, r.Reader(io.NopCloser(bytes.NewReader(text)), nil)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// Every two words of two letters, of up to seven: what is found where one begins or ends in the
// other is what a search that forgets nothing finds.
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

// ends is, for each byte of text, how long the longest word is that ends with it.
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

func TestOneBehindTheOther(t *testing.T) {
	t.Parallel()
	for _, secrets := range [][]string{{"abcdefghijkl", "bcdefghi"}, {"bcdefghi", "abcdefghijkl"}} {
		if out, n := mustNew(t, secrets...).Text("--abcdefghi--"); n != 1 || strings.Contains(out, "bcdefghi") {
			t.Errorf("%v: %q, %d marks", secrets, out, n)
		}
	}
}
