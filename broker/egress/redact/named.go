package redact

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Named looks for values by what they are called: of members of JSON ("access_token": "..."),
// elements of XML and parameters of URLs and forms. So it finds secrets that nobody has seen
// before: a token that an answer makes. It is safe for concurrent use.
//
// Names are as they are written, in lower, upper or title case, and with what is no letter or digit
// escaped. Of a field of HTML that is called so, what it holds is a value where it comes behind the
// name. It reads no syntax but what is next to the
// name, and so finds them in event streams, scripts and JSON inside of JSON, too. A name is the
// end of a parameter's or member's beginning: `"token"` is not found in `"next_token"`.
type Named struct{ a *automaton }

// maxNames and maxName bound what is looked for.
const (
	maxNames = 64
	maxName  = 64
)

var errNames = errors.New("redact: name 1 to 64 members or parameters, each of 1 to 64 letters, digits and . _ -")

// tagEnds are what an element's name ends with (XML 1.0 section 3.1).
const tagEnds = "> \t\r\n"

// NewNamed makes a Named. Of members both are looked for, of parameters those alone.
func NewNamed(members, parameters []string) (*Named, error) {
	all := append(slices.Clone(members), parameters...)
	if len(all) == 0 || len(all) > maxNames || slices.ContainsFunc(all, func(name string) bool { return !ValidName(name) }) {
		return nil, errNames
	}
	var patterns []string
	for _, name := range members {
		// In an element's name a prefix may stand before it, and attributes behind.
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
		for _, before := range []string{"?", "&", ";", "#", `\u0026`} { // ; ends &amp; and its like
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

// cases are a name as it is, and as those write it who take no notice of the case.
func cases(name string) []string {
	title := []byte(strings.ToLower(name))
	for i, b := range title {
		if i == 0 || !alphanumeric(title[i-1]) {
			title[i] = strings.ToUpper(string(b))[0]
		}
	}
	return distinct([]string{name, strings.ToLower(name), strings.ToUpper(name), string(title)})
}

// spelt is a name with what is no letter or digit escaped, by each of the formats.
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

func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

// ValidName reports what can be looked for.
func ValidName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// Text is s with a mark in place of each value, and how many there were.
func (n *Named) Text(s string) (string, int) {
	p := n.begin()
	out := p.feed(make([]byte, 0, len(s)), []byte(s))
	if p.marks == 0 {
		return s, 0
	}
	return string(out), p.marks
}

// Reader is body with marks in place of values. It holds nothing back: the name comes before
// the value. hits is told of each mark; nil = nobody is.
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
	out  []byte // from off on not given on yet
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
		if came > 0 { // in the middle of a value nothing comes of it
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

// read reads once, into p if there is room. given is how much of p stands there as it came;
// what comes behind is in out.
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
