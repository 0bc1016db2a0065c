package gitpush

import (
	"bytes"
	"compress/zlib"
	"crypto/fips140"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ebb-broker/ebb/broker/egress/content"
)

// Limits of the commits that are read. Beyond them nothing is proven.
const (
	maxObjects = 8192     // commits and tags
	maxObject  = 64 << 10 // bytes of one
	maxTexts   = 2 << 20  // bytes of all, deltas included
)

// kind is the type of an entry of a pack (gitformat-pack).
type kind int

const (
	commitKind   kind = 1
	treeKind     kind = 2
	blobKind     kind = 3
	tagKind      kind = 4
	ofsDeltaKind kind = 6
	refDeltaKind kind = 7
)

// object is a commit or an annotated tag.
type object struct {
	at   int // where its entry begins
	kind kind
	text []byte
	walk int // the last walk that visited it
}

// pack is the beginning of a pack: its objects before the first tree or blob. The zero pack is empty.
type pack struct {
	format  format
	objects []object
	ids     map[string]int // to objects
	whole   bool           // the objects end there, and no limit was reached
	walks   int
	steps   int // that all walks may still do

	p     *prefix
	hash  hash.Hash
	zlib  inflater
	chunk []byte // free memory for texts
	used  int    // bytes of texts

	beyond [1]byte // for the end of an entry
}

type inflater interface {
	io.Reader
	zlib.Resetter
}

// inflaters are inflaters that refer to no body: between pushes each has the beginning of a stream.
var inflaters = sync.Pool{New: func() any {
	z, _ := zlib.NewReader(strings.NewReader(zlibHeader)) // it is well-formed
	return z
}}

const zlibHeader = "\x78\x9c"

var (
	errPack      = content.Refuse("its commands are not followed by a pack of version 2 or 3")
	errMalformed = content.Refuse("its pack is malformed; run 'git fsck', then push again")
)

// errLimit stops the reading of a pack.
var errLimit = errors.New("a limit of the commits is reached")

// readPack reads the pack's header and its commits.
func readPack(p *prefix, f format) (*pack, error) {
	k := &pack{format: f, p: p, ids: map[string]int{}, steps: maxSteps, hash: sha1.New()}
	if f == sha256Format {
		k.hash = sha256.New()
	}
	start := p.at
	head, err := p.take(12)
	if err != nil {
		return nil, err
	}
	version, left := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if string(head[:4]) != "PACK" || version != 2 && version != 3 {
		return nil, errPack
	}
	if f == sha1Format && fips140.Enforced() { // no SHA-1: nothing is proven
		k.whole = true
		return k, nil
	}
	k.zlib = inflaters.Get().(inflater)
	defer func() {
		_ = k.zlib.Reset(strings.NewReader(zlibHeader), nil)
		inflaters.Put(k.zlib)
	}()
	for ; left > 0; left-- {
		more, err := k.entry()
		switch {
		case errors.Is(err, errLimit), errors.Is(err, errFull):
			return k, nil
		case err != nil:
			return nil, early(err)
		case !more:
			k.whole = true
			return k, nil
		}
	}
	k.whole = true
	body := p.kept[start:p.at]
	sum, err := p.take(f.digits / 2)
	if err == nil {
		k.hash.Reset()
		k.hash.Write(body)
		if !bytes.Equal(k.hash.Sum(nil), sum) {
			return nil, errMalformed
		}
		err = p.end()
	}
	if errors.Is(err, errFull) { // the server checks what follows
		err = nil
	}
	return k, err
}

// entry reads the next entry of the pack. It reports false for one that is no commit and no tag.
func (k *pack) entry() (more bool, err error) {
	if len(k.objects) == maxObjects {
		return false, errLimit
	}
	at := k.p.at
	c, err := k.p.ReadByte()
	if err != nil {
		return false, err
	}
	what, size := kind(c>>4&7), int(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = k.p.ReadByte(); err != nil {
			return false, err
		}
		if shift > 50 {
			return false, errMalformed
		}
		size |= int(c&0x7f) << shift
	}
	base := -1
	switch what {
	case commitKind, tagKind:
	case treeKind, blobKind:
		return false, nil
	case ofsDeltaKind, refDeltaKind:
		if base, err = k.base(at, what); base < 0 {
			return false, err
		}
	default:
		return false, errMalformed
	}
	text, err := k.inflate(size)
	if err == nil && base >= 0 {
		what = k.objects[base].kind
		text, err = applyDelta(k.objects[base].text, text, k.alloc)
	}
	if err != nil {
		return false, err
	}
	return true, k.keep(object{at: at, kind: what, text: text})
}

// base returns the index of the object that the delta at the given place changes, or -1 if that
// object is not an earlier commit or tag of the pack.
func (k *pack) base(at int, what kind) (int, error) {
	if what == refDeltaKind {
		id, err := k.p.take(k.format.digits / 2)
		if i, found := k.ids[hex.EncodeToString(id)]; found {
			return i, nil
		}
		return -1, err
	}
	back := -1
	for c := byte(0x80); c&0x80 != 0; {
		var err error
		if c, err = k.p.ReadByte(); err != nil {
			return -1, err
		}
		if back = (back+1)<<7 | int(c&0x7f); back > maxKept {
			return -1, errMalformed
		}
	}
	i, found := slices.BinarySearchFunc(k.objects, at-back, func(o object, at int) int { return o.at - at })
	if !found {
		return -1, errMalformed // all earlier entries are commits and tags
	}
	return i, nil
}

// inflate returns the data of an entry, which must have size bytes.
func (k *pack) inflate(size int) ([]byte, error) {
	if size > maxObject || k.used > maxTexts {
		return nil, errLimit
	}
	var data []byte
	err := k.zlib.Reset(k.p, nil)
	if err == nil {
		data = k.alloc(size)
		_, err = io.ReadFull(k.zlib, data)
	}
	if err == nil {
		if n, end := io.ReadFull(k.zlib, k.beyond[:]); n == 0 && errors.Is(end, io.EOF) {
			return data, nil
		}
	}
	if k.p.err != nil && k.p.at == len(k.p.kept) {
		return nil, k.p.err
	}
	return nil, errMalformed
}

// alloc returns memory for n bytes of text.
func (k *pack) alloc(n int) []byte {
	if len(k.chunk) < n {
		k.chunk = make([]byte, max(n, 8<<10))
	}
	text := k.chunk[:n:n]
	k.chunk = k.chunk[n:]
	k.used += n
	return text
}

// keep computes the id of an object and keeps it.
func (k *pack) keep(o object) error {
	name := "commit "
	if o.kind == tagKind {
		name = "tag "
	}
	if o.kind == commitKind && !k.format.isCommit(o.text) {
		return errMalformed
	}
	var head [32]byte
	var sum [sha256.Size]byte
	k.hash.Reset()
	k.hash.Write(append(strconv.AppendInt(append(head[:0], name...), int64(len(o.text)), 10), 0))
	k.hash.Write(o.text)
	k.ids[hex.EncodeToString(k.hash.Sum(sum[:0]))] = len(k.objects)
	k.objects = append(k.objects, o)
	return nil
}
