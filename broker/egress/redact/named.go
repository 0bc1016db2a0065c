package redact

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Named finds values by their names: of JSON members ("access_token": "..."), XML elements, and
// parameters of URLs and forms. So it finds secrets that ebb does not know, such as a token that a
// response creates. It is safe for concurrent use.
//
// A name is found as it is written, in lower, upper and title case, and with its other characters
// than letters and digits escaped. For an HTML field with such a name, the value attribute after
// the name is a value. Named parses only the syntax next to a name, and so also finds values in
// event streams, scripts and JSON inside JSON. It finds complete names only: `"token"` is not found
// in `"next_token"`.
type Named struct{ a *automaton }

// maxNames and maxName limit the number and the length of names.
const (
	maxNames = 64
	maxName  = 64
)

var errNames = errors.New("redact: 1 to 64 names of members or parameters are required, each of 1 to 64 letters, digits and . _ -")

// tagEnds are the characters that may follow the name of an element (XML 1.0 section 3.1).
const tagEnds = "> \t\r\n"

// NewNamed returns a Named. members are looked for as members, elements and parameters, parameters
// only as parameters.
func NewNamed(members, parameters []string) (*Named, error) {
	all := append(slices.Clone(members), parameters...)
	if len(all) == 0 || len(all) > maxNames || slices.ContainsFunc(all, func(name string) bool { return !validName(name) }) {
		return nil, errNames
	}
	var patterns []string
	for _, name := range members {
		// The name of an element may have a prefix before it and attributes after it.
		for _, s := range slices.Concat(cases(name), spelt(name, `\u%04x`, `\u%04X`)) {
			patterns = append(patterns, `"`+s+`"`, `'`+s+`'`)
		}
		for _, s := range slices.Concat(cases(name), spelt(name, `\\u%04x`, `\\u%04X`)) {
			patterns = append(patterns, `\"`+s+`\"`)
		}
		for _, behind := range tagEnds {
			patterns = append(patterns, "<"+name+string(behind), ":"+name+string(behind))
		}
	}
	for _, name := range all {
		for _, before := range []string{"?", "&", ";", "#", `\u0026`} { // ; ends &amp; and other spellings of &
			for _, s := range slices.Concat(cases(name), spelt(name, "%%%02X", "%%%02x")) {
				patterns = append(patterns, before+s+"=", before+s+`\u003d`, before+s+`\u003D`)
			}
		}
		for _, before := range []string{"%26", "%3F", "%3f"} {
			for _, s := range slices.Concat(cases(name), spelt(name, "%%25%02X", "%%25%02x")) {
				patterns = append(patterns, before+s+"%3D", before+s+"%3d")
			}
		}
	}
	a, err := newAutomaton(distinct(patterns))
	if err != nil {
		return nil, err
	}
	return &Named{a: a}, nil
}

// cases returns a name as it is, and in lower, upper and title case.
func cases(name string) []string {
	title := []byte(strings.ToLower(name))
	for i, b := range title {
		if i == 0 || !alphanumeric(title[i-1]) {
			title[i] = strings.ToUpper(string(b))[0]
		}
	}
	return distinct([]string{name, strings.ToLower(name), strings.ToUpper(name), string(title)})
}

// spelt returns a name with its other characters than letters and digits escaped, once for each
// format.
func spelt(name string, formats ...string) (out []string) {
	for _, format := range formats {
		var b strings.Builder
		for i := range len(name) {
			if alphanumeric(name[i]) {
				b.WriteByte(name[i])
			} else {
				fmt.Fprintf(&b, format, name[i])
			}
		}
		out = append(out, b.String())
	}
	return out
}

// alphanumeric reports whether b is an ASCII letter or digit.
func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

// validName reports whether a name can be looked for.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// Text returns s with a mark in place of each value, and the number of marks.
func (n *Named) Text(s string) (string, int) {
	p := n.begin()
	out := p.feed(make([]byte, 0, len(s)), []byte(s))
	if p.marks == 0 {
		return s, 0
	}
	return string(out), p.marks
}

// Reader returns body with marks in place of values. It holds nothing back, because the name comes
// before the value. hits is called with the number of new marks; it may be nil.
func (n *Named) Reader(body io.ReadCloser, hits func(n int)) io.ReadCloser {
	if hits == nil {
		hits = func(int) {}
	}
	return &namedReader{ReadCloser: body, p: n.begin(), hits: hits}
}

type namedReader struct {
	io.ReadCloser
	p    parser
	hits func(int)
	in   []byte
	out  []byte // from off on not returned yet
	off  int
	err  error
}

// Read implements io.Reader.
func (r *namedReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for empty := 0; r.off == len(r.out) && r.err == nil; empty++ {
		if empty > 100 {
			r.err = io.ErrNoProgress
			break
		}
		given, came := r.read(p)
		if given > 0 {
			return given, nil
		}
		if came > 0 { // data in the middle of a value gives no output
			empty = 0
		}
	}
	if r.off == len(r.out) {
		return 0, r.err
	}
	n := copy(p, r.out[r.off:])
	r.off += n
	return n, nil
}

// read reads once, into p if p is large enough. given is the number of bytes at the beginning of p
// that are unchanged; the rest is in out.
func (r *namedReader) read(p []byte) (given, came int) {
	into := p
	if len(p) < inPlace {
		if r.in == nil {
			r.in = make([]byte, chunk)
		}
		into = r.in
	}
	before := r.p.marks
	came, err := r.ReadCloser.Read(into)
	if len(p) >= inPlace {
		given = r.p.plain(p[:came])
	}
	r.out, r.off, r.err = r.p.feed(r.out[:0], into[given:came]), 0, err
	if n := r.p.marks - before; n > 0 {
		r.hits(n)
	}
	clear(into[given:came])
	return given, came
}
