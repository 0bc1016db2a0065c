package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Mark replaces a secret.
const Mark = "[redacted]"

// MinSecret is the minimum length of a secret in bytes. Shorter values occur in texts by chance.
const MinSecret = 8

// maxSecrets is the maximum total length of the secrets of one Redactor, in bytes.
const maxSecrets = 64 << 10

// Redactor finds a set of secrets. It is safe for concurrent use. It holds the secrets in clear
// text, so that its user must drop it when they are over.
type Redactor struct {
	a      *automaton
	least  int         // length of the shortest secret in bytes
	chars  int         // minimum length of a secret in base64, in characters
	stride int         // distance of probes: in a text of chars characters at least one probe of eight bytes lies
	begin  [2][64]bool // beginnings of secrets, by their first character in base16 and in base64
	space  bool        // a secret contains a space
	part   [256]uint8  // roles of each byte in a secret
	never  uint64      // bits that no byte of a secret has, for eight bytes
	lower  bool        // the patterns are in lower case, and texts are read so
	names  *Redactor   // for names of header fields
}

var errShort = fmt.Errorf("redact: a secret is shorter than %d bytes, and would be found in texts by chance", MinSecret)

// New returns a Redactor. It returns an error for secrets that cannot be looked for, because no
// response may be returned without a search.
func New(secrets ...string) (*Redactor, error) {
	if len(secrets) == 0 {
		return nil, errors.New("redact: there is no secret to look for")
	}
	var patterns []string
	total := 0
	for _, s := range secrets {
		if len(s) < MinSecret {
			return nil, errShort
		}
		if total += len(s); total > maxSecrets {
			return nil, errTooMany
		}
		patterns = append(patterns, forms(s)...)
	}
	r, err := newRedactor(distinct(patterns))
	if err != nil {
		return nil, err
	}
	if r.names, err = inNames(secrets); err != nil {
		return nil, err
	}
	return r, nil
}

// newRedactor returns a Redactor for patterns, as they are and in their encodings.
func newRedactor(patterns []string) (*Redactor, error) {
	a, err := newAutomaton(patterns)
	if err != nil {
		return nil, err
	}
	r := &Redactor{a: a, least: len(patterns[0]), space: a.class[' '] != 0, part: parts(&a.class), never: ones * 0x80}
	for _, p := range patterns {
		r.least = min(r.least, len(p))
	}
	if slices.ContainsFunc(r.part[0x80:], func(p uint8) bool { return p != outside }) {
		r.never = 0
	}
	r.chars = (8*r.least + 5) / 6
	r.stride = min(max(r.chars-7, 1), maxStride)
	for b, first := range a.first {
		if first {
			r.begin[0][b>>4], r.begin[1][b>>2] = true, true
		}
	}
	return r, nil
}

// maxStride is the maximum distance of probes in bytes.
const maxStride = 48

// forms returns a secret as it is and in UTF-16, because escapes and base64 may encode those bytes.
func forms(secret string) []string {
	out := []string{secret}
	if utf8.ValidString(secret) {
		var little, big strings.Builder
		for _, u := range utf16.Encode([]rune(secret)) {
			little.Write([]byte{byte(u), byte(u >> 8)})
			big.Write([]byte{byte(u >> 8), byte(u)})
		}
		out = append(out, strings.TrimSuffix(little.String(), "\x00"), strings.TrimPrefix(big.String(), "\x00"))
	}
	return out
}

func distinct(all []string) []string {
	seen := map[string]bool{}
	out := all[:0]
	for _, s := range all {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// Bytes returns the approximate memory in bytes.
func (r *Redactor) Bytes() int { return r.a.bytes() + r.names.a.bytes() }

// Text returns s with a mark in place of each secret, and the number of marks.
func (r *Redactor) Text(s string) (string, int) {
	if len(s) < r.least {
		return s, 0
	}
	sc := r.scan()
	out := sc.feed(nil, []byte(s), true)
	if sc.marks == 0 {
		return s, 0
	}
	return string(out), sc.marks
}

// Beginning is Text for the beginning of a longer text: an end that may be the beginning of a
// secret is left out.
func (r *Redactor) Beginning(s string) (string, int) {
	sc := r.scan()
	out := sc.feed(nil, []byte(s), false)
	out = sc.broken(out)
	return string(out), sc.marks
}

// scan is the search of one text as it arrives.
type scan struct {
	search search
	text   []byte // held data; before it returned data that the next data may belong to
	from   int    // beginning of the held data
	kept   []byte // memory for text
	spans  []span // secrets in text, in order, without overlap
	marks  int
}

// span is a part of a text. marked reports that its mark was written together with its beginning.
type span struct {
	from, to int
	marked   bool
}

func (r *Redactor) scan() *scan {
	return &scan{search: search{Redactor: r, spelling: spelling{space: r.space, lower: r.lower}}}
}

// behind is how many returned bytes are kept where the text may continue in base64 or base16. They
// may hold a part of the first byte of a secret, or of an escape of it.
const behind = 128

// feed reads p and appends to out all that can no longer become part of a secret; whole reports
// that p ends the text.
func (s *scan) feed(out, p []byte, whole bool) []byte {
	s.add(p)
	return s.release(out, s.look(whole))
}

// add appends received data.
func (s *scan) add(p []byte) {
	s.kept = append(s.text, p...)
	s.text = s.kept
}

// look searches the text, and returns the index up to which it can be returned.
func (s *scan) look(whole bool) int {
	s.search.found, s.search.open = s.search.found[:0], false
	n := max(s.search.look(s.text, depths, whole), s.from)
	for _, f := range s.search.found {
		if f.to > s.from {
			f.from = max(f.from, s.from)
			s.spans = append(s.spans, f)
		}
	}
	if len(s.spans) > 1 {
		s.join()
	}
	return n
}

// join merges overlapping spans.
func (s *scan) join() {
	slices.SortFunc(s.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	kept := s.spans[:0]
	for _, sp := range s.spans {
		if n := len(kept); n > 0 && sp.from < kept[n-1].to {
			kept[n-1].to, kept[n-1].marked = max(kept[n-1].to, sp.to), kept[n-1].marked || sp.marked
			continue
		}
		kept = append(kept, sp)
	}
	s.spans = kept
}

// broken appends the marks of the secrets that were found. It drops the other held data, which may
// be the beginning of a secret whose end will not arrive.
func (s *scan) broken(out []byte) []byte {
	for _, sp := range s.spans {
		if !sp.marked {
			out = append(out, Mark...)
			s.marks++
		}
	}
	s.spans, s.text, s.from = nil, nil, 0
	return out
}

// release returns the text up to n. If a secret continues after n, its mark is written now, and its
// rest is dropped later.
func (s *scan) release(out []byte, n int) []byte {
	at, kept := s.from, s.spans[:0]
	for _, sp := range s.spans {
		if sp.from >= n {
			kept = append(kept, sp)
			continue
		}
		out = append(out, s.text[at:sp.from]...)
		if !sp.marked {
			out = append(out, Mark...)
			s.marks++
		}
		if at = sp.to; sp.to > n {
			at = n
			kept = append(kept, span{from: n, to: sp.to, marked: true})
		}
	}
	out = append(out, s.text[at:n]...)
	s.spans = kept
	s.forget(n)
	return out
}

// forget drops the text up to n, except for an end that may continue after it.
func (s *scan) forget(n int) {
	gone := n
	if s.search.open {
		gone = max(n-behind, 0)
	}
	s.kept = append(s.kept[:0], s.text[gone:]...)
	s.text, s.from = s.kept, n-gone
	for i := range s.spans {
		s.spans[i].from -= gone
		s.spans[i].to -= gone
	}
}

// inNames returns a Redactor for names of header fields. HTTP ignores the case of these names (RFC
// 9110 section 5.1), so that servers and proxies change it. Base64 in lower case cannot be decoded,
// so that the encoded forms of the secrets are looked for. Only the first maxInName bytes of a form
// are used.
func inNames(secrets []string) (*Redactor, error) {
	var patterns []string
	for _, s := range secrets {
		forms := []string{s, hex.EncodeToString([]byte(s))}
		for before := range 3 {
			forms = append(forms, middle(base64.StdEncoding, s, before), middle(base64.URLEncoding, s, before))
		}
		for _, form := range forms {
			patterns = append(patterns, strings.ToLower(form[:min(len(form), maxInName)]))
		}
	}
	r, err := newRedactor(distinct(patterns))
	if err == nil {
		r.lower = true
	}
	return r, err
}

// maxInName is how many bytes of a form are looked for in names.
const maxInName = 64

// middle returns the base64 of a secret inside a text, with before bytes (mod 3) in front of it. It
// leaves out the characters that depend on the bytes beside the secret.
func middle(e *base64.Encoding, secret string, before int) string {
	text := e.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
	return text[(before*8+5)/6 : (before+len(secret))*8/6]
}

// InName reports whether the name of a header or trailer contains a secret.
func (r *Redactor) InName(name string) bool {
	if len(name) < r.names.least {
		return false
	}
	if _, n := r.Text(name); n > 0 {
		return true
	}
	s := r.names.scan()
	s.search.look([]byte(strings.ToLower(name)), 0, true)
	return len(s.search.found) > 0
}

// Limits for one secret: bytes of its forms for each byte of it, in bodies; and numbers of forms,
// in bodies and in names.
const (
	formsPerByte = 5
	formsAtMost  = 3
	namesAtMost  = 8
)

// Cost returns the maximum memory of a Redactor for secrets of these lengths, in bytes. Building it
// takes twice as much in addition.
func Cost(secrets ...string) int {
	const link, row = 20, 4<<9 + 12
	cost := 2 * (row + skipBytes)
	for _, s := range secrets {
		// The first two states of a form have rows, and the state where it branches from another
		// form.
		cost += (formsPerByte*len(s)+namesAtMost*maxInName)*link + (formsAtMost+namesAtMost)*(rowDepth+1)*row
	}
	return cost
}
