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
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c == 0x7f {
			w.err = errText
			return
		}
		if c == '"' || c == '\\' {
			w.out = append(w.out, '\\')
		}
		w.out = append(w.out, c)
	}
	w.out = append(w.out, '"')
}

func (w *writer) time(n string, t time.Time) {
	t = t.UTC()
	if y := t.Year(); y < 1970 || y > 9999 {
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
