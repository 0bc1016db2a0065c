package gitpush_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

const (
	zero = "0000000000000000000000000000000000000000"
	caps = " report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5"
	who  = "author A <a@example.com> 1767225600 +0000\ncommitter C <c@example.com> 1767225600 +0000\n"
)

// pkt returns a pkt-line.
func pkt(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// body returns a push of commands, the first of which states capabilities.
func body(pack string, commands ...string) string {
	var b strings.Builder
	for i, c := range commands {
		if i == 0 && !strings.Contains(c, "\x00") {
			c += "\x00" + caps
		}
		b.WriteString(pkt(c))
	}
	return b.String() + "0000" + pack
}

// packer writes packs.
type packer struct {
	new     func() hash.Hash
	entries bytes.Buffer
	count   int
	at      map[string]int // id to the place of its entry
}

func newPacker(digits int) *packer {
	if digits == 64 {
		return &packer{new: sha256.New, at: map[string]int{}}
	}
	return &packer{new: sha1.New, at: map[string]int{}}
}

// sum returns the id of an object.
func (k *packer) sum(kind, text string) string {
	h := k.new()
	fmt.Fprintf(h, "%s %d\x00%s", kind, len(text), text)
	return hex.EncodeToString(h.Sum(nil))
}

// head returns the first bytes of an entry.
func head(kind, size int) string {
	b := []byte{byte(kind<<4 | size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		b[len(b)-1] |= 0x80
		b = append(b, byte(size&0x7f))
	}
	return string(b)
}

func deflate(text string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

func compress(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

// raw adds an entry as it is.
func (k *packer) raw(entry string) {
	k.entries.WriteString(entry)
	k.count++
}

// object adds an object.
func (k *packer) object(kind int, text string) string {
	id := k.sum([]string{1: "commit", 2: "tree", 3: "blob", 4: "tag"}[kind], text)
	k.at[id] = 12 + k.entries.Len()
	k.raw(head(kind, len(text)) + deflate(text))
	return id
}

// commit adds a commit.
func (k *packer) commit(tree, message string, parents ...string) string {
	return k.object(1, commitText(tree, message, parents...))
}

func commitText(tree, message string, parents ...string) string {
	text := "tree " + tree + "\n"
	for _, p := range parents {
		text += "parent " + p + "\n"
	}
	return text + who + "\n" + message + "\n"
}

// ofsDelta adds a delta against an entry of the pack.
func (k *packer) ofsDelta(base, delta string) {
	back := 12 + k.entries.Len() - k.at[base]
	offset := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		offset = append([]byte{byte(0x80 | back&0x7f)}, offset...)
	}
	k.raw(head(6, len(delta)) + string(offset) + deflate(delta))
}

// refDelta adds a delta against an object.
func (k *packer) refDelta(base, delta string) {
	raw, _ := hex.DecodeString(base)
	k.raw(head(7, len(delta)) + string(raw) + deflate(delta))
}

// pack returns the pack.
func (k *packer) pack() string {
	b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("PACK"), 2), uint32(k.count))
	return k.sealed(string(b) + k.entries.String())
}

// sealed returns a pack with its checksum.
func (k *packer) sealed(pack string) string {
	h := k.new()
	h.Write([]byte(pack))
	return pack + string(h.Sum(nil))
}

// deltaOf returns a delta that makes text of base: it copies the common beginning, and inserts the
// rest.
func deltaOf(base, text string) string {
	same := 0
	for same < min(len(base), len(text), 0xffff) && base[same] == text[same] {
		same++
	}
	d := varint(len(base)) + varint(len(text))
	if same > 0 {
		d += string([]byte{0x80 | 0x10 | 0x20, byte(same), byte(same >> 8)})
	}
	for rest := text[same:]; rest != ""; {
		n := min(len(rest), 127)
		d += string([]byte{byte(n)}) + rest[:n]
		rest = rest[n:]
	}
	return d
}

func varint(n int) string { return string(binary.AppendUvarint(nil, uint64(n))) }
