package redact

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// search looks for secrets in one text: as they are, and encoded by escapes, base64, base16 and
// UTF-16, in two of these one inside the other. It searches decoded text again.
type search struct {
	*Redactor
	spelling
	found  []span
	open   bool // the text ends in a part that may continue in base64 or base16
	paths  []path
	nodes  []node
	levels [depths]level
}

// depths is how many times a text is decoded from base64, base16 or UTF-16.
const depths = 2

// look adds the secrets in t to found. held is the index from which on t may be the beginning of a
// secret: its length, if t is whole. Most texts have no part of bytes that is long enough for a
// secret and could be one.
func (s *search) look(t []byte, depth int, whole bool) (held int) {
	held = len(t)
	for from, to := s.stretch(t, 0, whole); from < len(t); from, to = s.stretch(t, to, whole) {
		for from < to && (t[from] == '\n' || t[from] == '\r') && s.a.class[t[from]] == 0 {
			from++
		}
		n, part, all := len(s.found), t[from:to], whole || to < len(t)
		if len(part) == 0 {
			continue
		}
		h := s.escaped(part, depth, all)
		if depth > 0 && (!all || len(part) >= s.chars) {
			h = min(h, s.encoded(part, depth, all))
		}
		for i := n; i < len(s.found); i++ {
			s.found[i].from += from
			s.found[i].to += from
		}
		if !all {
			held, s.open = from+h, s.open || depth == depths
		}
	}
	return held
}

// escaped looks for secrets in t, with and without the escapes in it.
func (s *search) escaped(t []byte, depth int, whole bool) (held int) {
	held = len(t)
	i, state := 0, uint32(0)
	if depth > 0 {
		s.levels[depth-1].joins = [2][]int{s.levels[depth-1].joins[0][:0], s.levels[depth-1].joins[1][:0]}
	}
	places := s.places(t)
	for p := places.from(0); p < len(t); p = places.from(p + 1) {
		if s.idle(t, p) {
			continue
		}
		edges, short := s.at(t, p)
		if depth > 0 {
			s.join(t, p, edges, short && !whole, depth)
		}
		if p < i || !(short && !whole || slices.ContainsFunc(edges, s.matters)) {
			continue
		}
		_, state = s.read(t[:p], i, state)
		var h int
		i, state, h = s.branch(t, p, state, depth, whole)
		held = min(held, h)
	}
	_, state = s.read(t, i, state)
	if !whole {
		held = min(held, len(t)-int(s.a.of(state).depth))
	}
	return held
}

// idle reports whether the escape at p is of a short, frequent kind and stands for a byte that is
// not part of a secret, of another escape, or of base64 or base16 around it.
func (s *search) idle(t []byte, p int) bool {
	if p+2 >= len(t) {
		return false
	}
	c, v, to := t[p+1], byte(0), p+2
	switch t[p] {
	case '\\':
		if v = pairs[c]; v == 0 {
			return second[c]&kinds['\\'] == 0 || bytes.HasPrefix(t[p:], four) && s.a.class['\\'] == 0
		}
	case '&':
		for to--; to < len(t) && alphanumeric(t[to]); to++ {
		}
		if to+2 >= len(t) || c == '#' || t[to] == ';' {
			return false
		}
		high, low := hexValues[t[to+1]], hexValues[t[to+2]]
		v = high<<4 | low
		return !s.begins(t[to]) || t[to] == '%' && high < between && low < between && !alphanumeric(v) && v != '#' && v != ';'
	case spaceMark:
		return false
	default:
		if second[c]&kinds[t[p]] == 0 {
			return true
		}
		high, low := hexValues[c], hexValues[t[p+2]]
		if high >= between || low >= between {
			return false
		}
		v, to = high<<4|low, p+3
	}
	if s.a.class[v] != 0 || s.begins(v) {
		return false
	}
	w := min(base64Values[v], hexValues[v])
	alone := w >= between || p > 0 && base64Values[t[p-1]] >= between // no encoded part before it continues in it
	return w == foreign || alone && to < len(t) && min(base64Values[t[to]], hexValues[t[to]]) == foreign && !s.begins(t[to])
}

// four backslashes stand for backslashes in every reading.
var four = []byte(`\\\\`)

// pairs has the byte that a backslash and a byte stand for, if no further byte can belong to the
// escape.
var pairs = func() (t [256]byte) {
	for b := range t {
		if out, v := unescape([]byte{'\\', byte(b)}); v == finished && second[b] != 1<<len(marks)-1 {
			t[b] = out.out[0]
		}
	}
	return t
}()

// join records an escape that may stand for a character of base64 or base16, or for a separator
// between two.
func (s *search) join(t []byte, p int, edges []edge, short bool, depth int) {
	joins := &s.levels[depth-1].joins
	for i, a := range alphabets {
		if short || slices.ContainsFunc(edges, func(e edge) bool {
			v := byte('\n') // a line break that is not part of the text
			if e.n > 0 {
				v = e.out[0]
			}
			return e.n < 2 && s.goesOn(t, p, e.to, v, a)
		}) {
			joins[i] = append(joins[i], p)
		}
	}
}

// goesOn reports whether the escape from p to to, which stands for v, may be inside a part in an
// alphabet that is long enough for a secret. It also returns true if the length of the part is not
// known yet.
func (s *search) goesOn(t []byte, p, to int, v byte, a alphabet) bool {
	n, most := 0, s.least*8/a.bits
	switch w := a.values[v]; {
	case w > between || w == between && p > 0 && a.values[t[p-1]] > between:
		return false
	case w < between:
		n = 1
	}
	for n < most && to+8 <= len(t) && a.eight(t[to:]) {
		n, to = n+8, to+8
	}
	for line := v == '\n'; n < most; to++ {
		if to == len(t) || s.begins(t[to]) {
			return true
		}
		if w := a.values[t[to]]; w < between {
			n++
		} else if w == foreign || w == indent && !line {
			break
		} else {
			line = line || t[to] == '\n'
		}
	}
	for p--; p >= 0 && n < most; p-- {
		if w := a.values[t[p]]; w < between {
			n++
		} else if w == foreign || w == indent {
			return false
		}
	}
	return true
}

// matters reports whether an escape may be a part of a secret.
func (s *search) matters(e edge) bool {
	for _, b := range e.out[:e.n] {
		if s.a.class[b] == 0 {
			return false
		}
	}
	return true
}

// read reads t from i on, without escapes.
func (s *search) read(t []byte, i int, state uint32) (int, uint32) {
	for i < len(t) {
		if i, state = s.a.next(t, i, state); state >= hit {
			state &^= hit
			s.cover(i-int(s.a.of(state).found), i)
		}
	}
	return i, state
}

func (s *search) cover(from, to int) { s.found = append(s.found, span{from: from, to: to}) }

// stretch returns the next part of t, from i on, in which each byte can be part of a secret in some
// encoding. It is at least as long as the shortest secret, or may continue after t.
func (s *search) stretch(t []byte, i int, whole bool) (from, to int) {
	if s.least >= longSecret {
		from, to = s.sampled(t, i, whole)
	} else {
		from, to = s.backwards(t, i, whole)
	}
	if from < len(t) || whole {
		return from, to
	}
	for from > i && s.inside(t, from-1, whole) {
		from--
	}
	return from, to
}

// longSecret is the length in bytes of the shortest secret from which on sampled is used: it checks
// eight bytes inside each possible secret, and then the bytes beside them.
const longSecret = 24

// sampled checks eight bytes at a distance at which every stretch has some, and the eight bytes
// before and after those.
func (s *search) sampled(t []byte, i int, whole bool) (from, to int) {
	for p := i; p+8 <= len(t); p += s.least - 7 {
		if x := binary.LittleEndian.Uint64(t[p:]); x&s.never != 0 || s.eight(x) == outside || p >= 8 && p+16 <= len(t) && s.eight(binary.LittleEndian.Uint64(t[p-8:]))|s.eight(binary.LittleEndian.Uint64(t[p+8:])) == outside {
			continue
		}
		from, to = p, s.end(t, p, whole)
		for from > i && s.inside(t, from-1, whole) {
			from--
		}
		if to-from >= s.least {
			return from, to
		}
		if to > p {
			i, p = to, to
		}
	}
	return len(t), len(t)
}

// end returns the end of the bytes from i on that can be part of a secret.
func (s *search) end(t []byte, i int, whole bool) int {
	for i+8 <= len(t) && s.eight(binary.LittleEndian.Uint64(t[i:]))&inside != 0 {
		i += 8
	}
	for i < len(t) && s.inside(t, i, whole) {
		i++
	}
	return i
}

// eight returns what all of eight bytes can be.
func (s *search) eight(x uint64) uint8 {
	return s.part[byte(x)] & s.part[byte(x>>8)] & s.part[byte(x>>16)] & s.part[byte(x>>24)] & s.part[byte(x>>32)] & s.part[byte(x>>40)] & s.part[byte(x>>48)] & s.part[byte(x>>56)]
}

// backwards checks a stretch from its end, so that it can skip the bytes before one that ends it.
func (s *search) backwards(t []byte, i int, whole bool) (from, to int) {
	for i+s.least <= len(t) {
		to = i + s.least - 1
		for to >= i && s.inside(t, to, whole) {
			to--
		}
		if to >= i {
			i = to + 1
			continue
		}
		return i, s.end(t, i+s.least, whole)
	}
	return len(t), len(t)
}

// Roles of a byte in a secret, in some encoding.
const (
	outside = 0
	inside  = 1 << 0
	spaced  = 1 << 1 // in base16 with spaces
)

// parts returns what each byte can be, for secrets with the bytes of a class.
func parts(class *[256]uint16) (t [256]uint8) {
	for i := range t {
		b := byte(i)
		if b != ' ' && min(base64Values[b], hexValues[b]) < foreign || class[b] != 0 || b == 0 || strings.IndexByte(marks+"#;", b) >= 0 {
			t[b] = inside
		}
		if b == ' ' || b == 0 || hexValues[b] < between {
			t[b] |= spaced
		}
	}
	return t
}

// inside reports whether the byte at i can be part of a secret. A space can, between two bytes of
// base16, which may be in UTF-16.
func (s *search) inside(t []byte, i int, whole bool) bool {
	if p := s.part[t[i]]; t[i] != ' ' || p&inside != 0 {
		return p&inside != 0
	}
	for _, n := range [2]int{3, 6} {
		if i >= n && t[i-n] == ' ' || i+n < len(t) && t[i+n] == ' ' || i+n >= len(t) && !whole {
			return true
		}
	}
	return false
}
