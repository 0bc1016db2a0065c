package redact_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ebb-broker/ebb/broker/egress/redact"
)

// frame returns a frame of a server.
func frame(opcode byte, final bool, payload string) string {
	b := []byte{opcode}
	if final {
		b[0] |= 0x80
	}
	switch n := len(payload); {
	case n <= 125:
		b = append(b, byte(n))
	case n <= 1<<16-1:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return string(b) + payload
}

// E84 and E99: a secret is overwritten however many frames carry it, and invalid data ends the
// stream.
//
//ebb:invariant I8 A secret in a WebSocket message from the upstream is overwritten, regardless of the number of frames that carry it
//ebb:invariant I8 A WebSocket frame from the upstream that is invalid, or not permitted at that point, ends the WebSocket
//ebb:invariant I12 The bytes of a WebSocket that are buffered while they may be part of a secret are limited
func TestFrames(t *testing.T) {
	t.Parallel()
	const s = "0123456789"
	stars := strings.Repeat("*", len(s))
	r := mustNew(t, s)
	for name, c := range map[string]struct{ in, want string }{
		"whole":                 {frame(1, true, "a "+s+" b"), frame(1, true, "a "+stars+" b")},
		"in two frames":         {frame(1, false, "a 0123") + frame(0, true, "456789 b"), frame(1, false, "a ****") + frame(0, true, "****** b")},
		"byte by byte":          {frame(1, false, "0") + frame(0, false, "1") + frame(0, false, "") + frame(0, true, "23456789"), frame(1, false, "*") + frame(0, false, "*") + frame(0, false, "") + frame(0, true, "********")},
		"with a ping between":   {frame(1, false, "0123") + frame(9, true, "4567") + frame(0, true, "456789"), frame(1, false, "****") + frame(9, true, "4567") + frame(0, true, "******")},
		"in a ping":             {frame(1, false, "0123") + frame(9, true, s) + frame(0, true, "!"), frame(1, false, "0123") + frame(9, true, stars) + frame(0, true, "!")},
		"in a close":            {frame(8, true, "\x03\xe8"+s), frame(8, true, "\x03\xe8"+stars)},
		"binary, long":          {frame(2, true, strings.Repeat("x", 70000)+s), frame(2, true, strings.Repeat("x", 70000)+stars)},
		"medium":                {frame(2, true, strings.Repeat("x", 300)+s+s), frame(2, true, strings.Repeat("x", 300)+stars+stars)},
		"two messages":          {frame(1, true, "01234") + frame(1, true, "56789"), frame(1, true, "01234") + frame(1, true, "56789")},
		"nearly":                {frame(1, true, "012345678") + frame(1, true, ""), frame(1, true, "012345678") + frame(1, true, "")},
		"one in another":        {frame(1, true, "01234567890123456789"), frame(1, true, stars+stars)},
		"after a cut one":       {frame(1, false, "0123") + frame(10, true, "") + frame(0, false, "0123") + frame(0, true, "456789"), frame(1, false, "0123") + frame(10, true, "") + frame(0, false, "****") + frame(0, true, "******")},
		"header as the payload": {frame(1, true, strings.Repeat("0123456780", 9)), frame(1, true, strings.Repeat("0123456780", 9))},
	} {
		for _, src := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.HalfReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
			if out, err := io.ReadAll(r.Frames(src, nil)); err != nil || string(out) != c.want {
				t.Errorf("%s: %.100q, %v", name, out, err)
			}
		}
	}
	for name, in := range map[string]string{
		"masked": "\x81\x82" + strings.Repeat("x", 130), "an extension": "\xc1\x02hi", "a long ping": "\x89\x7e\x00\x7e" + strings.Repeat("x", 126), "a ping in parts": "\x09\x02hi",
		"of no kind": "\x83\x02hi", "a control frame of no kind": "\x8b\x02hi", "a second beginning": "\x01\x02hi\x81\x02hi", "none that it goes on": "\x80\x02hi", "the end twice": "\x01\x02hi\x80\x02hi\x80\x02hi",
		"cut off in a message": "\x01\x02hi", "pings without end in a secret": "\x01\x040123" + strings.Repeat("\x89\x00", 64<<10) + "\x80\x06456789",
		"2^63": "\x81\x7f\x80\x00\x00\x00\x00\x00\x00\x00xxx", "cut off": "\x81\x05hi", "cut off in the header": "\x81\x7e\x00",
	} {
		if out, err := io.ReadAll(r.Frames(strings.NewReader(in), nil)); err == nil || strings.Contains(string(out), "xxx") {
			t.Errorf("%s: %.100q", name, out)
		}
	}
}

// A message is returned when it is complete, even if its end could begin a secret.
func TestFramesAreNotDelayed(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	stream := mustNew(t, "0123456789").Frames(pr, nil)
	for _, f := range []string{frame(1, true, "one 0123"), frame(9, true, ""), frame(1, true, "")} {
		go func() { _, _ = io.WriteString(pw, f) }()
		got := make([]byte, len(f))
		if _, err := io.ReadFull(stream, got); err != nil || string(got) != f {
			t.Fatalf("%q came as %q, %v", f, got, err)
		}
	}
}

// However a message is split into frames and reads, the output is as long as the input. Exactly
// those payload bytes are overwritten that a search of the whole message finds. Invalid input
// causes no panic and does not become longer.
func FuzzFrames(f *testing.F) {
	f.Add("a 0123456789 b", "0123456789", []byte("\x81\x02hi"), uint64(1))
	f.Add(strings.Repeat("ab", 200), "abababab", []byte("\x81\xff"), uint64(2))
	f.Fuzz(func(t *testing.T, text, secret string, raw []byte, seed uint64) {
		if len(secret) < redact.MinSecret || len(secret) > 100 || len(text) > 4<<10 {
			return
		}
		r := mustNew(t, secret)
		if out, _ := io.ReadAll(r.Frames(bytes.NewReader(raw), nil)); len(out) > len(raw) {
			t.Fatalf("%q became %q", raw, out)
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		want := []byte(text)
		for _, part := range r.Secret(text) {
			copy(want[part[0]:], strings.Repeat("*", part[1]-part[0]))
		}
		var in, out string
		opcode := byte(1)
		for at := 0; at < len(text); {
			n := min(rng.IntN(10), len(text)-at)
			final := at+n == len(text)
			in, out = in+frame(opcode, final, text[at:at+n]), out+frame(opcode, final, string(want[at:at+n]))
			if !final && rng.IntN(3) == 0 {
				in, out = in+frame(9, true, "ping"), out+frame(9, true, "ping")
			}
			opcode, at = 0, at+n
		}
		var pieces [][]byte
		for rest := []byte(in); len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(20))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got, err := io.ReadAll(r.Frames(&cut{pieces: pieces, err: io.EOF}, nil)); err != nil || string(got) != out {
			t.Fatalf("%q: %q, %v; want %q", in, got, err, out)
		}
	})
}

// TestFramesCountSecrets: overlapping secrets count as one.
func TestFramesCountSecrets(t *testing.T) {
	t.Parallel()
	r := mustNew(t, "abababab")
	for text, want := range map[string]int{"ababababab": 1, "abababab abababab": 2, "abababababababab": 1, "abababa": 0} {
		got := 0
		out, err := io.ReadAll(r.Frames(iotest.OneByteReader(strings.NewReader(frame(1, true, text))), func(n int) { got += n }))
		if err != nil || got != want || want > 0 && strings.Contains(string(out), "ab") {
			t.Errorf("%q: %d, %q, %v; want %d", text, got, out, err, want)
		}
	}
}

func BenchmarkFrames(b *testing.B) {
	secret := strings.Repeat("0123456789", 4)
	r, err := redact.New(secret)
	if err != nil {
		b.Fatal(err)
	}
	stream := strings.Repeat(frame(2, false, strings.Repeat("what is said ", 300))+frame(9, true, "")+frame(0, true, "the end"), 1000)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.Copy(io.Discard, r.Frames(strings.NewReader(stream), nil)); err != nil {
			b.Fatal(err)
		}
	}
}
