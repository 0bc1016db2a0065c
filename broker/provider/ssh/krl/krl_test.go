package krl_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider/ssh/krl"
)

var (
	caA, caB = blob("ssh-ed25519", "A"), blob("ssh-ed25519", "B")
	key      = blob("ssh-ed25519", "K")
)

func str(s []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }

// blob is the wire form of an Ed25519 key whose 32 bytes are all fill.
func blob(kind, fill string) []byte {
	return append(str([]byte(kind)), str(bytes.Repeat([]byte(fill), 32))...)
}

func TestRevokes(t *testing.T) {
	old, sum := sha1.Sum(key), sha256.Sum256(key) //nolint:gosec // the format's
	cert := krl.Subject{Key: key, CA: caA, Serial: 7, KeyID: "lease:1"}
	for name, c := range map[string]struct {
		list krl.List
		want bool
	}{
		"nothing":              {krl.List{}, false},
		"serial":               {krl.List{Certs: []krl.Certs{{CA: caA, Serials: []krl.Range{krl.One(7)}}}}, true},
		"serial in a range":    {krl.List{Certs: []krl.Certs{{CA: caA, Serials: []krl.Range{{Lo: 1, Hi: math.MaxUint64}}}}}, true},
		"serial beside":        {krl.List{Certs: []krl.Certs{{CA: caA, Serials: []krl.Range{{Lo: 1, Hi: 6}, {Lo: 8, Hi: 9}}}}}, false},
		"serial of another CA": {krl.List{Certs: []krl.Certs{{CA: caB, Serials: []krl.Range{krl.One(7)}}}}, false},
		"serial of every CA":   {krl.List{Certs: []krl.Certs{{Serials: []krl.Range{krl.One(7)}}}}, true},
		"key id":               {krl.List{Certs: []krl.Certs{{CA: caA, KeyIDs: []string{"x", "lease:1"}}}}, true},
		"key id of another CA": {krl.List{Certs: []krl.Certs{{CA: caB, KeyIDs: []string{"lease:1"}}}}, false},
		"its key":              {krl.List{Keys: [][]byte{key}}, true},
		"its key by SHA-1":     {krl.List{SHA1: [][]byte{old[:]}}, true},
		"its key by SHA-256":   {krl.List{SHA256: [][]byte{sum[:]}}, true},
		"its CA":               {krl.List{Keys: [][]byte{caA}}, true},
		"another key":          {krl.List{Keys: [][]byte{caB}}, false},
	} {
		if got := c.list.Revokes(cert); got != c.want {
			t.Errorf("%s: Revokes = %v", name, got)
		}
		again, err := krl.Parse(c.list.Marshal())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := again.Revokes(cert); got != c.want {
			t.Errorf("%s, written and read: Revokes = %v", name, got)
		}
	}
	every := krl.List{Certs: []krl.Certs{{Serials: []krl.Range{{Lo: 0, Hi: math.MaxUint64}}}}}
	if every.Revokes(krl.Subject{Key: key, CA: caA}) || every.Revokes(krl.Subject{Key: key, Serial: 7}) {
		t.Error("serial zero, or a plain key, is revoked by a serial")
	}
}

// TestSHA1InFIPSMode: a list of hashes that the mode cannot make is refused, and others are read.
//
//ebb:invariant I6 With `GODEBUG=fips140=only`, an SSH key revocation list that identifies keys by SHA-1 is refused
func TestSHA1InFIPSMode(t *testing.T) {
	if !counterpart.FIPSOnly(t) {
		return
	}
	l := krl.List{Certs: []krl.Certs{{CA: caA, Serials: []krl.Range{krl.One(7)}}}, Keys: [][]byte{caB}}
	got, err := krl.Parse(l.Marshal())
	if err != nil || !got.Revokes(krl.Subject{Key: key, CA: caA, Serial: 7}) || got.Revokes(krl.Subject{Key: key, CA: caA, Serial: 8}) {
		t.Errorf("%+v, %v", got, err)
	}
	l.SHA1 = [][]byte{make([]byte, 20)}
	if _, err := krl.Parse(l.Marshal()); err == nil || !strings.Contains(err.Error(), "by SHA-1, which GODEBUG=fips140=only forbids") {
		t.Errorf("got %v", err)
	}
}

func TestEqualListsAreEqualBytes(t *testing.T) {
	a := krl.List{Certs: []krl.Certs{
		{CA: caB, Serials: []krl.Range{krl.One(9), {Lo: 3, Hi: 5}}}, {CA: caA, KeyIDs: []string{"b", "a", "b"}}, {CA: caB, Serials: []krl.Range{krl.One(4), krl.One(6), krl.One(9)}},
	}, Keys: [][]byte{caB, caA}}
	b := krl.List{Certs: []krl.Certs{{CA: caA, KeyIDs: []string{"a", "b"}}, {CA: caB, Serials: []krl.Range{{Lo: 3, Hi: 6}, krl.One(9)}}}, Keys: [][]byte{caA, caB, caA}}
	if !bytes.Equal(a.Marshal(), b.Marshal()) {
		t.Errorf("%x\n%x", a.Marshal(), b.Marshal())
	}
	joined := krl.Join(krl.List{Certs: a.Certs[:1]}, krl.List{Certs: a.Certs[1:], Keys: a.Keys})
	if !bytes.Equal(joined.Marshal(), b.Marshal()) {
		t.Error("Join loses something")
	}
	edge := krl.List{Certs: []krl.Certs{{CA: caA, Serials: []krl.Range{{Lo: 2, Hi: math.MaxUint64}, krl.One(math.MaxUint64), {Lo: 0, Hi: 1}, {Lo: 9, Hi: 8}}}}}
	got, err := krl.Parse(edge.Marshal())
	if err != nil || !slices.Equal(got.Certs[0].Serials, []krl.Range{{Lo: 1, Hi: math.MaxUint64}}) {
		t.Errorf("%v %v", got, err)
	}
}

// TestGolden compares the exact bytes with the tables of PROTOCOL.krl.
func TestGolden(t *testing.T) {
	l := krl.List{Version: 1, Date: 2, Comment: "c", Certs: []krl.Certs{{CA: []byte("CA"), Serials: []krl.Range{krl.One(5), {Lo: 7, Hi: 8}}, KeyIDs: []string{"i"}}}}
	want := strings.Join([]string{
		"5353484b524c0a00", "00000001", "0000000000000001", "0000000000000002", "0000000000000000", "00000000", "0000000163",
		"01", "00000036", "000000024341", "00000000",
		"20", "00000008", "0000000000000005",
		"21", "00000010", "0000000000000007", "0000000000000008",
		"23", "00000005", "0000000169",
	}, "")
	if got := hex.EncodeToString(l.Marshal()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// part is one list with one section of certificates that holds raw parts.
func part(parts ...[]byte) []byte {
	head := (&krl.List{}).Marshal()
	data := append(str(caA), str(nil)...)
	return append(append(head, 1), str(append(data, bytes.Join(parts, nil)...))...)
}

func TestBitmaps(t *testing.T) {
	bitmap := func(first uint64, bits ...byte) []byte {
		return append([]byte{0x22}, str(append(binary.BigEndian.AppendUint64(nil, first), str(bits)...))...)
	}
	l, err := krl.Parse(part(bitmap(10, 0x00, 0x80, 0x0d)))
	want := []krl.Range{krl.One(10), {Lo: 12, Hi: 13}, krl.One(25)}
	if err != nil || !slices.Equal(l.Certs[0].Serials, want) {
		t.Errorf("got %v %v, want %v", l.Certs, err, want)
	}
	if l, err := krl.Parse(part(bitmap(math.MaxUint64, 0x01))); err != nil || l.Certs[0].Serials[0] != krl.One(math.MaxUint64) {
		t.Errorf("the last serial: %v %v", l, err)
	}
	alternating := bytes.Repeat([]byte{0x55}, 2<<20)
	for name, bad := range map[string][]byte{
		"negative": bitmap(1, 0x80), "beyond the last": bitmap(math.MaxUint64, 0x03), "serial zero": bitmap(0, 0x01),
		"a bomb": bytes.Join([][]byte{bitmap(1, alternating...)}, nil),
	} {
		if _, err := krl.Parse(part(bad)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := (&krl.List{Certs: []krl.Certs{{CA: caA, Serials: []krl.Range{krl.One(5)}, KeyIDs: []string{"i"}}}, SHA256: [][]byte{make([]byte, 32)}}).Marshal()
	if _, err := krl.Parse(good); err != nil {
		t.Fatal(err)
	}
	if n := len((&krl.List{}).Marshal()); n != 44 {
		t.Fatalf("a list of nothing has %d bytes", n)
	}
	ends := 0
	for n := range good {
		if _, err := krl.Parse(good[:n]); err == nil {
			ends++ // only between two sections
		}
	}
	if ends != 2 {
		t.Errorf("%d prefixes of a list are lists", ends)
	}
	set := func(i int, b byte) []byte {
		c := slices.Clone(good)
		c[i] = b
		return c
	}
	empty := (&krl.List{}).Marshal()
	for name, bad := range map[string][]byte{
		"nothing": nil, "text": []byte("ssh-ed25519 AAAA"), "magic": set(0, 'X'), "version": set(11, 2), "flags": set(35, 1),
		"reserved": set(39, 1), "trailing byte": append(slices.Clone(good), 0),
		"signature section": append(slices.Clone(empty), append([]byte{4}, str(nil)...)...),
		"unknown section":   append(slices.Clone(empty), append([]byte{255}, str(nil)...)...),
		"short hash":        append(slices.Clone(empty), append([]byte{5}, str(str([]byte("x")))...)...),
		"empty key":         append(slices.Clone(empty), append([]byte{2}, str(str(nil))...)...),
		"serial zero":       part(append([]byte{0x20}, str(make([]byte, 8))...)),
		"half a serial":     part(append([]byte{0x20}, str(make([]byte, 7))...)),
		"inverted range":    part(append([]byte{0x21}, str(append(binary.BigEndian.AppendUint64(nil, 2), binary.BigEndian.AppendUint64(nil, 1)...))...)),
		"long range":        part(append([]byte{0x21}, str(bytes.Repeat([]byte{1}, 17))...)),
		"unknown part":      part(append([]byte{0x30}, str(nil)...)),
		"bad UTF-8":         part(append([]byte{0x23}, str(str([]byte("\xff")))...)),
		"NUL in a key id":   part(append([]byte{0x23}, str(str([]byte("a\x00")))...)),
		"huge length":       append(slices.Clone(empty), 1, 0xff, 0xff, 0xff, 0xff),
		"too large":         make([]byte, krl.MaxSize+1),
	} {
		if _, err := krl.Parse(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzParse: a list that parses is written in canonical form. The canonical form parses to
// itself, and refuses the same keys.
func FuzzParse(f *testing.F) {
	f.Add((&krl.List{}).Marshal())
	f.Add((&krl.List{Certs: []krl.Certs{{CA: caA, Serials: []krl.Range{krl.One(5), {Lo: 7, Hi: 9}}, KeyIDs: []string{"i"}}}, Keys: [][]byte{key}}).Marshal())
	f.Add(part(append([]byte{0x22}, str(append(binary.BigEndian.AppendUint64(nil, 9), str([]byte{0x5d})...))...)))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := krl.Parse(b)
		if err != nil {
			return
		}
		once := l.Marshal()
		again, err := krl.Parse(once)
		if err != nil {
			t.Fatalf("what was written is refused: %v\n%x", err, once)
		}
		if !bytes.Equal(again.Marshal(), once) {
			t.Fatalf("no fixed point: %x", once)
		}
		for _, c := range l.Certs {
			for _, r := range c.Serials {
				if s := (krl.Subject{Key: key, CA: append([]byte("x"), c.CA...), Serial: r.Hi}); l.Revokes(s) != again.Revokes(s) {
					t.Fatal("the two differ")
				}
			}
		}
	})
}
