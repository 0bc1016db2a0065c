package redact

import (
	"encoding/binary"
	"slices"
)

// alphabet is an encoding, base64 or base16: the value of each character, which is less than 64,
// and the characters that may stand between those.
type alphabet struct {
	values *[256]uint8
	bits   int // in one value
}

const (
	between = 64 + iota // may stand between characters anywhere
	indent              // ... after the end of a line
	foreign
)

var (
	base64Values = valuesOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", "\r\n=", " \t")
	hexValues    = valuesOf("0123456789abcdef", ": -+\r\n\t", "")
	base64Run    = alphabet{&base64Values, 6}
	hexRun       = alphabet{&hexValues, 4}
	alphabets    = [2]alphabet{base64Run, hexRun}
)

func valuesOf(digits, betweens, indents string) (t [256]uint8) {
	for b := range t {
		t[b] = foreign
	}
	for i := range len(digits) {
		t[digits[i]] = uint8(i)
	}
	for i := range len(betweens) {
		t[betweens[i]] = between
	}
	for i := range len(indents) {
		t[indents[i]] = indent
	}
	if len(digits) == 16 {
		copy(t['A':], t['a':'g'])
	} else {
		t['-'], t['_'] = t['+'], t['/']
	}
	return t
}

// end returns the index after the run of characters that begins at i.
func (a alphabet) end(t []byte, i int) int {
	for i+8 <= len(t) && a.eight(t[i:]) {
		i += 8
	}
	for i < len(t) && a.values[t[i]] < between {
		i++
	}
	return i
}

// eight reports whether the first eight bytes of t are characters.
func (a alphabet) eight(t []byte) bool {
	x, v := binary.LittleEndian.Uint64(t), a.values
	return (v[byte(x)]|v[byte(x>>8)]|v[byte(x>>16)]|v[byte(x>>24)]|v[byte(x>>32)]|v[byte(x>>40)]|v[byte(x>>48)]|v[byte(x>>56)])&between == 0
}

// of returns the value of an escape in an alphabet.
func (a alphabet) of(e edge) uint8 {
	switch e.n {
	case 0:
		return between
	case 1:
		return a.values[e.out[0]]
	}
	return foreign
}

// byteOf returns the decoded byte i of the characters v.
func (a alphabet) byteOf(v []byte, i int) byte {
	if a.bits == 4 {
		return hexValues[v[2*i]]<<4 | hexValues[v[2*i+1]]
	}
	bit := uint(i) * 8
	at, in := bit/6, bit%6
	return byte((uint(base64Values[v[at]])<<6 | uint(base64Values[v[at+1]])) >> (4 - in))
}

// decode returns the first n decoded bytes of the characters v, in the memory of out.
func (a alphabet) decode(out, v []byte, n int) []byte {
	out = slices.Grow(out, n)[:n]
	i := 0
	for ; a.bits == 6 && i+3 <= n; i, v = i+3, v[4:] {
		x := uint32(base64Values[v[0]])<<18 | uint32(base64Values[v[1]])<<12 | uint32(base64Values[v[2]])<<6 | uint32(base64Values[v[3]])
		out[i], out[i+1], out[i+2] = byte(x>>16), byte(x>>8), byte(x)
	}
	for j := 0; i < n; i, j = i+1, j+1 {
		out[i] = a.byteOf(v, j)
	}
	return out
}
