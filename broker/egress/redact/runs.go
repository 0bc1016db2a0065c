package redact

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sort"
)

// level is the data for the decoding of one text.
type level struct {
	joins [2][]int // indexes of escapes that may stand for a character of an alphabet, by alphabet
	read  []span   // parts in base64 that were read with their escapes
	chars []byte
	jumps []jump // characters that do not directly follow the character before them
	text  []byte
}

// jump is the place and length of a character that does not directly follow the one before it.
type jump struct{ char, at, size int32 }

// at returns the index in the text where a character begins, and end the index where it ends.
func (l *level) at(char int) int { at, _ := l.place(char); return at }

func (l *level) end(char int) int { at, size := l.place(char); return at + size }

func (l *level) place(char int) (at, size int) {
	i := sort.Search(len(l.jumps), func(i int) bool { return int(l.jumps[i].char) > char }) - 1
	j := l.jumps[i]
	if int(j.char) == char {
		return int(j.at), int(j.size)
	}
	return int(j.at+j.size-j.char) + char - 1, 1
}

// add adds a character that the text has between two indexes.
func (l *level) add(c byte, from, to int) {
	l.jumps = append(l.jumps, jump{int32(len(l.chars)), int32(from), int32(to - from)})
	l.chars = append(l.chars, c)
}

// runs are the encoded parts of one text.
type runs struct {
	*search
	l     *level
	t     []byte
	depth int
	whole bool
	held  int
	ends  [3]int // ends of the parts that were read in base64, base16 and UTF-16
	read  int    // number of parts in l.read that end before the current place of literal
}

// encoded looks for secrets in the parts of t that are base64, base16 or UTF-16.
func (s *search) encoded(t []byte, depth int, whole bool) (held int) {
	r := runs{search: s, l: &s.levels[depth-1], t: t, depth: depth, whole: whole, held: len(t)}
	r.l.read = r.l.read[:0]
	for i, a := range alphabets {
		for _, p := range r.l.joins[i] {
			if p >= r.ends[i] {
				from := r.back(p, r.ends[i], a)
				to := r.run(from, a, true)
				r.ends[i] = max(to, p+1)
				if i == 0 && to > p {
					r.l.read = append(r.l.read, span{from: from, to: to})
				}
			}
		}
	}
	r.ends = [3]int{}
	r.literal()
	return r.held
}

// literal looks for secrets in parts that are encoded without escapes. The distance of its probes
// is so small that a probe lies in every part that is long enough for a secret. It also checks the
// ends of lines, which may be in the middle of a part.
func (r *runs) literal() {
	t := r.t
	line := r.line(-1)
	for p := 0; p+8 <= len(t); p += r.stride {
		for line < p {
			r.broken(line)
			line = r.line(line)
		}
		x := binary.LittleEndian.Uint64(t[p:])
		switch {
		case within(x):
			r.long(p)
		case x&odd == 0 || x&even == 0:
			r.wide(p)
		default:
			if s := zeros(x ^ ones*' '); s&(s>>24) != 0 { // base16 with a space after every second digit
				r.try(p+bits.TrailingZeros64(s&(s>>24))/8, 1)
			}
		}
	}
	for line < len(t) {
		r.broken(line)
		line = r.line(line)
	}
	if !r.whole {
		r.try(len(t), 0)
		r.try(len(t), 1)
		if bytes.IndexByte(t[max(len(t)-2, 0):], 0) >= 0 {
			r.wide(max(len(t)-2, 0))
		}
	}
}

const (
	ones = 0x0101010101010101
	odd  = 0xff00ff00ff00ff00
	even = 0x00ff00ff00ff00ff
)

// within reports whether eight bytes are in the range of all characters of base64 and base16.
func within(x uint64) bool {
	const low, high = '+', 'z'
	return ((x-ones*low)|(x+ones*(0x7f-high))|x)&(ones*0x80) == 0
}

// zeros returns the highest bit of each byte that is zero.
func zeros(x uint64) uint64 {
	const low = ones * 0x7f
	return ^((x&low + low) | x | low)
}

// line returns the index of the next end of a line after p.
func (r *runs) line(p int) int {
	if n := bytes.IndexByte(r.t[p+1:], '\n'); n >= 0 {
		return p + 1 + n
	}
	return len(r.t)
}

// broken checks whether encoded text continues after the end of a line.
func (r *runs) broken(at int) {
	before, next := at-1, at+1
	for before >= 0 && (r.t[before] == '\r' || r.t[before] == '=') {
		before--
	}
	if before < 0 || next == len(r.t) {
		return
	}
	for i, a := range alphabets {
		if a.values[r.t[before]] <= between && a.values[r.t[next]] < between {
			r.try(next, i)
		}
	}
}

// long tries the run of characters at p, if it is long enough for a secret.
func (r *runs) long(p int) {
	t := r.t
	if p >= r.ends[0] {
		from, to := p, p
		for to < len(t) && base64Values[t[to]] < between && to-from < r.chars {
			to++
		}
		for from > r.ends[0] && base64Values[t[from-1]] < between && to-from < r.chars {
			from--
		}
		if to-from >= r.chars || to == len(t) || base64Values[t[to]] == between {
			r.try(p, 0)
		}
	}
	for i := p; i < p+3; i++ { // base16 with a separator after every second digit
		if c := t[i]; c == t[i+3] && hexValues[c] == between {
			r.try(i+1, 1)
		}
	}
}

// try reads the part in an alphabet at p, and base16 inside base64.
func (r *runs) try(p, i int) {
	a, t := alphabets[i], r.t
	if p < r.ends[i] {
		return
	}
	from := r.back(p, r.ends[i], a)
	if from == len(t) || a.values[t[from]] >= between {
		return
	}
	to := 0
	if i == 0 && r.known(from) {
		to = a.end(t, from)
	} else {
		to = r.run(from, a, false)
	}
	r.ends[i] = to
	for q := from; i == 0 && q < to; q += 2 * r.least {
		if hexValues[t[q]] < between {
			r.try(q, 1)
		}
	}
}

// known reports whether the part in base64 at from was already read with its escapes. It does not
// count if = or % stands before from: the text after these may be part of an escape, or base64
// without it.
func (r *runs) known(from int) bool {
	for r.read < len(r.l.read) && r.l.read[r.read].to <= from {
		r.read++
	}
	return r.read < len(r.l.read) && from >= r.l.read[r.read].from && from > 0 && r.t[from-1] != '=' && r.t[from-1] != '%'
}

// wide looks for secrets in UTF-16 text at p that consists of ASCII characters.
func (r *runs) wide(p int) {
	t := r.t
	if p < r.ends[2] {
		return
	}
	if p+1 < len(t) && t[p] == 0 {
		p++
	}
	if t[p] == 0 {
		return
	}
	for p >= 2 && t[p-1] == 0 && t[p-2] != 0 {
		p -= 2
	}
	l := r.l
	l.chars = l.chars[:0]
	i := p
	for ; i < len(t) && t[i] != 0 && (i == p || t[i-1] == 0); i += 2 {
		l.chars = append(l.chars, t[i])
	}
	r.ends[2] = i
	open := !r.whole && i >= len(t)
	if len(l.chars) < r.least && !open {
		return
	}
	n := len(r.found)
	h := r.look(l.chars, r.depth-1, !open)
	for j := n; j < len(r.found); j++ {
		r.found[j].from, r.found[j].to = p+2*r.found[j].from, p+2*r.found[j].to-1
	}
	if open && h < len(l.chars) {
		r.held = min(r.held, p+2*h)
	}
}

// back returns the index, at least from, where the part in an alphabet begins that contains p.
func (r *runs) back(p, from int, a alphabet) int {
	t := r.t
	for {
		for p > from && a.values[t[p-1]] < between {
			p--
		}
		q, line := p, a.bits == 4
		for q > from && a.values[t[q-1]] >= between && a.values[t[q-1]] < foreign && t[q-1] != '=' {
			q--
			line = line || t[q] == '\n' || t[q] == '\r'
		}
		if q == p || q == from || !line || a.values[t[q-1]] >= between || bytes.Count(t[q:p], []byte{'\n'}) > 1 {
			return p
		}
		p = q
	}
}

// run reads the part in an alphabet that begins at from, with or without its escapes, and looks for
// secrets in it. to is where its last character ends.
func (r *runs) run(from int, a alphabet, escapes bool) (to int) {
	l, t := r.l, r.t
	l.chars, l.jumps = l.chars[:0], l.jumps[:0]
	alone := []byte(nil) // the characters as a part of t, while they directly follow each other
	lines, open := 0, true
	to = from
	for p := from; p < len(t); {
		c, next := t[p], p+1
		v := a.values[c]
		if escapes && r.begins(c) {
			if r.short = false; v >= between {
				e, ok := r.single(t, p)
				if r.short {
					break
				}
				if w := a.of(e); ok && w < foreign {
					c, v, next = e.out[0], w, e.to
				}
			}
		}
		switch {
		case v >= between:
			if c == '\n' {
				lines++
			}
			if open = v != foreign && (v != indent || lines > 0) && lines < 2; !open {
				next = len(t)
			}
		case next > p+1:
			alone = l.move(alone, from)
			l.add(c, p, next)
			to, lines = next, 0
		default:
			next = a.end(t, next)
			if to == from && p == from {
				alone = t[p:next]
			} else {
				alone = l.move(alone, from)
				l.add(c, p, p+1)
				l.chars = append(l.chars, t[p+1:next]...)
			}
			to, lines = next, 0
		}
		p = next
	}
	if alone == nil {
		alone = l.chars
	} else {
		l.jumps = append(l.jumps[:0], jump{0, int32(from), 1})
	}
	r.decode(a, alone, open && !r.whole, lines > 0)
	return to
}

// move adds the characters of alone to those of the level, and returns nil.
func (l *level) move(alone []byte, from int) []byte {
	if alone != nil {
		l.add(alone[0], from, from+1)
		l.chars = append(l.chars, alone[1:]...)
	}
	return nil
}

// certain is how many bytes of a secret must be found before the end of a line for the text before
// that to be held back.
const certain = 4

// decode looks for secrets in the decoded characters. open reports that more characters may follow;
// broken that the end of a line follows them.
func (r *runs) decode(a alphabet, chars []byte, open, broken bool) {
	l := r.l
	if n := len(chars) * a.bits; n == 0 || n < 8*r.least && !open {
		return
	}
	unit := 8 / (8 - a.bits) // characters that end at the end of a byte: 4 of base64, 2 of base16
	for skip := range min(unit, len(chars)) {
		v := chars[skip:]
		n := len(v) * a.bits / 8
		at := func(b int) int { return l.at(skip + (8*b+a.bits-1)/a.bits) } // the first character that belongs only to byte b
		for from, to := r.coarse(v, a, 0, n, !open); from < n; from, to = r.coarse(v, a, to, n, !open) {
			from -= from % (unit - 1)
			l.text = a.decode(l.text[:0], v[from*8/a.bits:], to-from)
			found, all := len(r.found), !open || to < n
			held := from + r.look(l.text, r.depth-1, all)
			for i := found; i < len(r.found); i++ {
				f := &r.found[i]
				f.from, f.to = at(from+f.from), l.end(skip+8*(from+f.to)/a.bits-1)
			}
			if !all && held < n && (!broken || n-held >= certain) {
				r.held = min(r.held, at(held))
			}
		}
		if last := len(v) - 1; open && r.depth == depths && !broken && last*a.bits%8 == 0 && r.begin[a.bits/6][a.values[v[last]]] {
			r.held = min(r.held, at(n))
		}
	}
}

// coarse returns the next part, from byte i on, of the n decoded bytes in which each byte can be
// part of a secret, as stretch does for a text. Only the bytes that it checks are decoded.
func (r *runs) coarse(v []byte, a alphabet, i, n int, whole bool) (from, to int) {
	for i+r.least <= n {
		to = i + r.least - 1
		for to >= i && r.part[a.byteOf(v, to)] != outside {
			to--
		}
		if to >= i {
			i = to + 1
			continue
		}
		to = i + r.least
		for to < n && r.part[a.byteOf(v, to)] != outside {
			to++
		}
		return i, to
	}
	for from = n; !whole && from > i && r.part[a.byteOf(v, from-1)] != outside; from-- {
	}
	return from, n
}
