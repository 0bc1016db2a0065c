package redact_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"ebb/broker/egress/redact"
)

// rooms are how much is asked for at one time: too little to be looked at where it is, and enough.
var rooms = []int{7, 64 << 10}

// drain reads all by so much at one time, and finds what is left where it is read into.
func drain(r io.Reader, room int, never ...string) (string, error) {
	var out []byte
	p := make([]byte, room)
	for {
		n, err := r.Read(p)
		out = append(out, p[:n]...)
		for _, s := range never {
			if bytes.Contains(p[n:], []byte(s)) {
				return "", fmt.Errorf("%q is left behind what was read", s)
			}
		}
		clear(p)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return string(out), err
		}
	}
}

// A stream is marked the same whether it is looked at where it was read into, or copied: cut at
// every place, with a second secret, behind what has been marked, and however much is held back.
func TestReadInPlace(t *testing.T) {
	t.Parallel()
	long := random(3, 8<<10)
	for _, c := range []struct {
		secrets []string
		in      string
	}{
		{[]string{secret}, "no more than a text"},
		{[]string{secret}, "a" + secret + "b" + secret},
		{[]string{"abcdefgh"}, "abcdefgabcdefghabcdef"},
		{[]string{"abcdefgh", "fghijklm"}, "abcdefghxyz, abcdefghijklm, abcdefg"},
		{[]string{long}, long[:8000] + long[:4000]},
		{[]string{long}, long[:8000] + long + long[:4100]},
	} {
		r := mustNew(t, c.secrets...)
		want, marks := r.Text(c.in)
		for at := 0; at <= len(c.in); at += 1 + len(c.in)/500 {
			for _, room := range []int{4 << 10, 6000, 64 << 10} {
				got := 0
				pieces := slices.DeleteFunc([][]byte{[]byte(c.in[:at]), []byte(c.in[at:])}, func(p []byte) bool { return len(p) == 0 })
				out, err := drain(r.Reader(io.NopCloser(&cut{pieces: pieces, err: io.EOF}), func(n int) { got += n }), room, c.secrets[0][:8])
				if err != nil || out != want || got != marks {
					t.Fatalf("%.60q cut at %d, read by %d: %.80q, %v, %d marks; want %.80q, %d", c.in, at, room, out, err, got, want, marks)
				}
			}
		}
	}
}

// E87: of a secret that an error cuts off nothing is given on from where it was read into.
func TestErrorsInPlaceHideNothing(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	for in, want := range map[string]string{"data: " + secret: "data: " + redact.Mark, "data: " + secret[:12]: "data: ", "data: all": "data: all"} {
		out, err := drain(mustNew(t, secret).Reader(io.NopCloser(&cut{pieces: [][]byte{[]byte(in)}, err: lost}), nil), 64<<10, secret[:8])
		if !errors.Is(err, lost) || out != want {
			t.Errorf("%q: %q, %v", in, out, err)
		}
	}
	if _, err := drain(mustNew(t, secret).Reader(io.NopCloser(stuck{}), nil), 64<<10); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a source that gives nothing: %v", err)
	}
	if _, err := drain(named(t).Reader(io.NopCloser(stuck{}), nil), 64<<10); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a source that gives nothing, by name: %v", err)
	}
}

// The value behind a name is nowhere where it was read into.
func TestNamedInPlace(t *testing.T) {
	t.Parallel()
	n := named(t)
	for _, in := range []string{
		`{"id": 1, "access_token": "never-said", "a": "<access_token a=\"1\">never-said</access_token>", "b": "?token=never-said&c=2"} {"access_token":"never-said"}`,
		`{"a": "<k:access_token>never-said</k:access_token>"}`,
	} {
		want, _ := n.Text(in)
		for at := 1; at < len(in); at++ {
			out, err := drain(n.Reader(io.NopCloser(&cut{pieces: [][]byte{[]byte(in[:at]), []byte(in[at:])}, err: io.EOF}), nil), 64<<10, "never")
			if err != nil || out != want {
				t.Fatalf("%q cut at %d: %q, %v; want %q", in, at, out, err, want)
			}
		}
	}
}

// Every form is found at every place of a text, behind what begins as it does and ends otherwise,
// and at the end: what is skipped is never a part of one.
func TestNothingIsSkipped(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"abcdefgh", "aaaaaaaa", "abababab", secret, random(1, 40)} {
		r := mustNew(t, s)
		forms := redact.Forms(s)
		for _, form := range forms {
			for n := range min(len(form), 24) {
				for _, text := range []string{strings.Repeat(" ", n) + form + " ", form[:n] + form, form[:n] + " " + form + form[:n], form[len(form)-n:] + form, strings.Repeat(form[:1], n) + form} {
					if out, _ := r.Text(text); out != naive(text, forms...) {
						t.Fatalf("%q: %q is %q, want %q", s, text, out, naive(text, forms...))
					}
				}
			}
		}
	}
}
