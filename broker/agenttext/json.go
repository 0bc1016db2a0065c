package agenttext

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// MarshalJSON writes the raw text as an ASCII JSON string: everything outside
// printable ASCII, and the characters HTML cares about, are \u escapes. A byte
// that is not UTF-8 becomes the lone surrogate U+DC00+byte, so that UnmarshalJSON
// restores it; New never lets such a byte in.
func (u Untrusted) MarshalJSON() ([]byte, error) {
	raw := u.Raw()
	out := make([]byte, 0, len(raw)+2)
	out = append(out, '"')
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRuneInString(raw[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			out = escape(out, 0xDC00+rune(raw[i]))
		case r >= 0x10000:
			hi, lo := utf16.EncodeRune(r)
			out = escape(escape(out, hi), lo)
		case r < 0x20 || r > 0x7e || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&':
			out = escape(out, r)
		default:
			out = append(out, byte(r))
		}
		i += n
	}
	return append(out, '"'), nil
}

func escape(out []byte, u rune) []byte {
	return append(out, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

var errNotString = errors.New("text must be a JSON string")

// UnmarshalJSON reads a JSON string, in particular one that MarshalJSON wrote.
// null leaves u unchanged.
func (u *Untrusted) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return errNotString
	}
	b = b[1 : len(b)-1]
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if b[i] == '"' || b[i] < 0x20 {
			return errNotString
		}
		if b[i] != '\\' {
			out = append(out, b[i])
			i++
			continue
		}
		var err error
		if out, i, err = unescape(out, b, i); err != nil {
			return err
		}
	}
	*u = From(string(out))
	return nil
}

// unescape decodes the escape at b[i] and returns where the next one starts.
func unescape(out, b []byte, i int) ([]byte, int, error) {
	if i+1 >= len(b) {
		return nil, 0, errNotString
	}
	switch c := b[i+1]; c {
	case '"', '\\', '/':
		return append(out, c), i + 2, nil
	case 'b':
		return append(out, '\b'), i + 2, nil
	case 'f':
		return append(out, '\f'), i + 2, nil
	case 'n':
		return append(out, '\n'), i + 2, nil
	case 'r':
		return append(out, '\r'), i + 2, nil
	case 't':
		return append(out, '\t'), i + 2, nil
	case 'u':
	default:
		return nil, 0, fmt.Errorf("%w: unknown escape", errNotString)
	}
	r, err := unit(b, i)
	if err != nil {
		return nil, 0, err
	}
	i += 6
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(out, r), i, nil
	}
	if lo, err := unit(b, i); err == nil {
		if c := utf16.DecodeRune(r, lo); c != utf8.RuneError {
			return utf8.AppendRune(out, c), i + 6, nil
		}
	}
	if r >= 0xDC80 && r <= 0xDCFF {
		return append(out, byte(r-0xDC00)), i, nil
	}
	return utf8.AppendRune(out, utf8.RuneError), i, nil
}

// unit reads the \uXXXX at b[i].
func unit(b []byte, i int) (rune, error) {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return 0, errNotString
	}
	v, err := strconv.ParseUint(string(b[i+2:i+6]), 16, 16)
	if err != nil {
		return 0, fmt.Errorf("%w: bad \\u escape", errNotString)
	}
	return rune(v), nil
}

// ASCIIJSON escapes all characters of a JSON text that are not ASCII, and DEL. A terminal then
// shows the escape and does not obey the character, and a JSON parser reads the same text. Such
// characters occur in JSON strings only, where an escape is always allowed (RFC 8259 section 7).
func ASCIIJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = escape(escape(out, hi), lo)
		default:
			out = escape(out, r)
		}
		text = text[size:]
	}
	return out
}
