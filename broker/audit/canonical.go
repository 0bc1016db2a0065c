package audit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// maxInt is the largest integer that RFC 8785 (an IEEE 754 double) keeps.
const maxInt = 1<<53 - 1

var (
	errText   = errors.New("a text is longer than 512 bytes, not UTF-8, or holds a control character")
	errTime   = errors.New("a time is not in the years 1970 to 9999")
	errData   = errors.New("data is not one JSON object of at most 64 KiB")
	errNumber = errors.New("data holds a number that a double cannot keep; write it as a string")
)

// writer appends members of one canonical object; the caller keeps the order.
type writer struct {
	out []byte
	err error
}

func (w *writer) name(n string) {
	if w.out[len(w.out)-1] != '{' {
		w.out = append(w.out, ',')
	}
	w.out = append(append(append(w.out, '"'), n...), '"', ':')
}

func (w *writer) member(n, value string) {
	w.name(n)
	w.text(value)
}

func (w *writer) optional(n, value string) {
	if value != "" {
		w.member(n, value)
	}
}

// text refuses control characters. No name in the audit log contains one, and without them only two
// characters need an escape.
func (w *writer) text(s string) {
	if len(s) > MaxName || !utf8.ValidString(s) {
		w.err = errText
		return
	}
	w.out = append(w.out, '"')
	from := 0 // start of the part that is not written yet
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20 || c == 0x7f:
			w.err = errText
			return
		case c == '"' || c == '\\':
			w.out = append(append(w.out, s[from:i]...), '\\')
			from = i
		}
	}
	w.out = append(append(w.out, s[from:]...), '"')
}

// Writable reports whether an audit entry or a checkpoint can have this time.
func Writable(t time.Time) bool { return t.Year() >= 1970 && t.Year() <= 9999 }

func (w *writer) time(n string, t time.Time) {
	t = t.UTC()
	if !Writable(t) {
		w.err = errTime
		return
	}
	w.name(n)
	w.out = append(t.AppendFormat(append(w.out, '"'), timeForm), '"')
}

func (w *writer) integer(n string, v int64) {
	if v < 0 || v > maxInt {
		w.err = fmt.Errorf("%s is not in 0 to 2^53-1", n)
	}
	w.name(n)
	w.out = strconv.AppendInt(w.out, v, 10)
}

func (w *writer) object(n string, raw []byte) {
	canon, err := canonicalObject(raw)
	if err != nil {
		w.err = err
		return
	}
	w.name(n)
	w.out = append(w.out, canon...)
}

// canonicalObject returns the RFC 8785 form of a JSON object. It may alias raw.
func canonicalObject(raw []byte) ([]byte, error) {
	if len(raw) > MaxData {
		return nil, errData
	}
	if isCanonical(raw) && raw[0] == '{' {
		return raw, nil
	}
	if err := losslessNumbers(raw); err != nil {
		return nil, err
	}
	canon, err := jcs.Transform(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errData, err)
	}
	if len(canon) == 0 || canon[0] != '{' || len(canon) > MaxData {
		return nil, errData
	}
	return canon, nil
}

// losslessNumbers refuses numbers that RFC 8785 would round: a change of the lost digits would not
// change the hash.
func losslessNumbers(raw []byte) error {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case c == '-' || c >= '0' && c <= '9':
			start := i
			for i+1 < len(raw) && strings.IndexByte("0123456789+-.eE", raw[i+1]) >= 0 {
				i++
			}
			if !lossless(string(raw[start : i+1])) {
				return errNumber
			}
		}
	}
	return nil
}

func lossless(number string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if digits := strings.Trim(whole+fraction, "0"); digits == "" {
		return true
	} else if len(digits) <= 15 && len(whole)+len(fraction) <= 64 {
		e, err := strconv.Atoi(exponent)
		return exponent == "" || err == nil && e > -200 && e < 200
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false
	}
	canon, err := jcs.NumberToJSON(f)
	return err == nil && canon == number
}

// isCanonical reports whether raw is in RFC 8785 form. It may return false for canonical input. It
// never returns true for other input; a fuzz test compares it with jcs. encoding/json writes maps
// in this form, so that the mint path rarely parses its data twice.
func isCanonical(raw []byte) bool {
	s := scan{b: raw}
	return s.value(0) && s.i == len(raw)
}

const maxDepth = 16

type scan struct {
	b []byte
	i int
}

// take consumes c if it is next.
func (s *scan) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scan) value(depth int) bool {
	if s.i >= len(s.b) || depth > maxDepth {
		return false
	}
	switch c := s.b[s.i]; c {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		_, ok := s.text()
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.integer()
	}
}

func (s *scan) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// integer accepts integers that a double represents exactly and prints without an exponent.
func (s *scan) integer() bool {
	minus := s.take('-')
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	n := s.i - start
	if n == 0 || n > 15 || s.b[start] == '0' && (n > 1 || minus) {
		return false
	}
	return s.i == len(s.b) || s.b[s.i] != '.' && s.b[s.i] != 'e' && s.b[s.i] != 'E'
}

// text accepts a string without escapes and returns its content.
func (s *scan) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	start, ascii := s.i, true
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			in := s.b[start:s.i]
			s.i++
			return in, ascii || utf8.Valid(in)
		case c == '\\' || c < 0x20:
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

// object requires ASCII names in strictly ascending order: for these, the order of bytes is the
// order of UTF-16 code units that RFC 8785 section 3.2.3 requires.
func (s *scan) object(depth int) bool {
	s.i++
	if s.take('}') {
		return true
	}
	var last []byte
	for first := true; ; first = false {
		name, ok := s.text()
		if !ok || !first && string(name) <= string(last) {
			return false
		}
		for _, c := range name {
			if c >= utf8.RuneSelf {
				return false
			}
		}
		last = name
		if !s.take(':') || !s.value(depth+1) {
			return false
		}
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

func (s *scan) array(depth int) bool {
	s.i++
	if s.take(']') {
		return true
	}
	for {
		if !s.value(depth + 1) {
			return false
		}
		if s.take(']') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}
