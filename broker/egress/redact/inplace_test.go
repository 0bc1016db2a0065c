package redact_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/redact"
)

// rooms are the sizes of reads: too small to search the data in the caller's buffer, and large
// enough.
var rooms = []int{7, 64 << 10}

// drain reads everything in reads of one size, and checks that none of never remains in the buffer.
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

// A stream is marked in the same way whether it is searched in the caller's buffer or copied: split
// at every place, with a second secret after a mark, and however much is held back.
//
//ebb:invariant I8 The redactor finds a secret wherever the response is split, and leaves none of it in the caller's read buffer, also after errors
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

// E87: of a secret that an error cuts off, nothing is returned from the caller's buffer.
//
//ebb:invariant I8 The redactor finds a secret wherever the response is split, and leaves none of it in the caller's read buffer, also after errors
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

// The value after a name remains nowhere in the caller's buffer.
//
//ebb:invariant I8 When a response is searched in the caller's read buffer, no value with the name of a credential remains in that buffer
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

// A secret is found in every encoding at every place of a text, after text that begins like it and
// ends differently, and at the end: skipped text is never part of a secret.
//
//ebb:invariant I8 The redactor finds a secret at every position, although it skips most bytes of a response
func TestNothingIsSkipped(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"abcdefgh", "aaaaaaaa", "abababab", "no-user-at-all", secret, random(1, 40)} {
		r := mustNew(t, s)
		for _, e := range encodings {
			form := e.of(s)
			for n := range 70 {
				before := strings.Repeat(" ", n)
				for _, text := range []string{before + form + " ", before + form[:min(n, len(form)-1)] + "! " + form + " " + form[:min(n, len(form)-1)], before + form, strings.Repeat("!", 70-n) + form + "!"} {
					if out, marks := r.Text(text); marks == 0 || strings.Contains(out, form) {
						t.Fatalf("%s of %q: %q is %q", e.name, s, text, out)
					}
				}
			}
		}
	}
}
