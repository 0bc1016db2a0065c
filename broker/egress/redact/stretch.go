package redact

import (
	"encoding/binary"
	"strings"
)

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

// What a byte can be in a secret in some encoding.
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
