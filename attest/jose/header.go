package jose

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	lru "github.com/hashicorp/golang-lru/v2"
)

// Header is the part of a JOSE header that ebb reads (RFC 7515, section 4.1).
type Header struct {
	// Alg is a known algorithm, exactly as spelt in the token.
	Alg Alg
	// Type is typ in lower case without the prefix "application/"; "" when absent.
	Type string
	// KID is "" when absent.
	KID string
	// Key is the embedded public key; the zero Key unless Limits.EmbeddedKey.
	Key Key
}

// headerNames are the registered names. A case-insensitive parser could mistake similar
// names for them.
var headerNames = []string{"alg", "typ", "kid", "crit", "b64", "zip", "jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256", "cty", "enc", "nonce"}

// headerRefused are parameters that would move trust or meaning out of the token: extensions
// (crit, b64), another serialisation (zip, enc, cty) and keys from other sources (jku, x5u,
// x5c). See RFC 8725, sections 3.9 and 3.10.
var headerRefused = []string{"crit", "b64", "zip", "enc", "jku", "x5u", "x5c", "cty"}

const maxKID = 256

func parseHeader(b []byte, lim Limits) (Header, error) {
	m, err := decodeObject(b, lim)
	if err != nil {
		return Header{}, refuseBecause(ReasonMalformed, "the header of the token is not one strict JSON object", err)
	}
	if m.lookAlike(headerNames) {
		return Header{}, refuse(ReasonMalformed, "the header of the token has look-alike members")
	}
	for _, name := range headerRefused {
		if _, found := m[name]; found {
			return Header{}, refuse(ReasonHeader, "the header of the token has a parameter that is not accepted")
		}
	}
	alg, ok := text(m["alg"])
	if !ok || !Alg(alg).Valid() {
		return Header{}, refuse(ReasonAlgorithm, "the token has no accepted signature algorithm")
	}
	h := Header{Alg: Alg(alg)}
	if v, found := m["typ"]; found {
		typ, ok := text(v)
		if h.Type = normalType(typ); !ok || h.Type == "" {
			return Header{}, refuse(ReasonType, "the type of the token is not a media type")
		}
	}
	if v, found := m["kid"]; found {
		if h.KID, ok = text(v); !ok || !validKID(h.KID) {
			return Header{}, refuse(ReasonHeader, "the key id of the token is not 1 to 256 printable characters")
		}
	}
	v, found := m["jwk"]
	if !found {
		return h, nil
	}
	if !lim.EmbeddedKey {
		return Header{}, refuse(ReasonHeader, "the header of the token has a parameter that is not accepted")
	}
	if h.Key, err = ParseJWK(v); err != nil {
		return Header{}, refuseBecause(ReasonKey, "the key in the header is not an acceptable public key", err)
	}
	return h, nil
}

// normalType returns typ without the optional prefix (RFC 7515, section 4.1.9).
func normalType(typ string) string {
	typ = strings.ToLower(typ)
	if len(typ) > 128 || !Plain(typ) {
		return ""
	}
	return strings.TrimPrefix(typ, "application/")
}

func validKID(kid string) bool {
	if kid == "" || len(kid) > maxKID {
		return false
	}
	for i := 0; i < len(kid); i++ {
		if kid[i] < 0x20 || kid[i] > 0x7e {
			return false
		}
	}
	return true
}

// maxKnown is the maximum length in bytes of a header text that is cached. A header with an
// RSA-8192 key fits.
const maxKnown = 2 << 10

// Headers caches parsed headers by their exact text. A client signs all its DPoP proofs
// under one header that contains its key, and parsing that key costs more than parsing the
// rest of the proof.
//
// The cache has no influence on a decision: the meaning of a header depends only on its text
// and the Limits, and claims, signature and replay are checked each time. A client that
// fills the cache with its own headers can only cause other clients the cost that they would
// have without the cache. Use one Headers with one set of Limits. It is safe for concurrent
// use. A Header from it must not be changed.
type Headers struct{ known *lru.Cache[string, Header] }

// NewHeaders returns a cache of up to n headers of at most about 4 KiB each.
func NewHeaders(n int) (*Headers, error) {
	known, err := lru.New[string, Header](n)
	return &Headers{known}, err
}

// parse parses the first part of a token. A nil Headers caches nothing.
func (h *Headers) parse(text string, lim Limits) (Header, error) {
	if h != nil {
		if known, ok := h.known.Get(text); ok {
			return known, nil
		}
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return Header{}, errParts
	}
	out, err := parseHeader(raw, lim)
	if err == nil && h != nil && len(text) <= maxKnown {
		h.known.Add(strings.Clone(text), out)
	}
	return out, err
}

// members is one strictly decoded JSON object: its names as sent and its values as raw JSON.
// Nested objects remain text; they too contain no duplicate names.
type members map[string]jsontext.Value

var (
	errDeep      = errors.New("nested too deeply")
	errCrowded   = errors.New("too many members")
	errNotObject = errors.New("not one JSON object")
)

// decodeObject decodes exactly one JSON object (RFC 8259, I-JSON RFC 7493): valid UTF-8, no
// duplicate names at any level, no data after it. Depth and member count are checked on the
// raw bytes before any value is allocated.
func decodeObject(b []byte, lim Limits) (members, error) {
	if err := measure(b, lim); err != nil {
		return nil, err
	}
	// The first byte distinguishes an object from null, which can be decoded as well.
	if trimmed := bytes.TrimLeft(b, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, errNotObject
	}
	out := make(members, 12)
	// The decoder's own errors quote the input; they are not returned.
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, errNotObject
	}
	return out, nil
}

// measure counts brackets and colons outside strings. On text that is not JSON the numbers
// are meaningless, but the decoder refuses that text anyway.
func measure(b []byte, lim Limits) error {
	depth, names, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > lim.Depth {
				return errDeep
			}
		case c == '}' || c == ']':
			depth--
		case c == ':':
			if names++; names > lim.Members {
				return errCrowded
			}
		}
	}
	return nil
}

// lookAlike reports whether a name differs only in letter case from a registered name,
// present or not, or from another member. A case-insensitive decoder in later code, such as
// encoding/json, would confuse them, so that "AUD" overrides "aud".
func (m members) lookAlike(registered []string) bool {
	fold := false
	for name := range m {
		if !foldable(name) {
			continue
		}
		fold = true
		for _, r := range registered {
			if name != r && strings.EqualFold(name, r) {
				return true
			}
		}
	}
	if !fold {
		return false
	}
	// Names are not compared pairwise, because an attacker chooses how many names there are
	// and how long their common prefixes are.
	seen := make(map[string]struct{}, len(m))
	for name := range m {
		seen[folded(name)] = struct{}{}
	}
	return len(seen) < len(m)
}

// folded returns the same text for all names that strings.EqualFold treats as equal.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			least = min(least, o)
		}
		return least
	}, name)
}

// foldable reports whether name could equal a different name under Unicode simple folding.
// Of two such names at least one is not plain lower-case.
func foldable(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= 'A' && c <= 'Z' || c >= 0x80 {
			return true
		}
	}
	return false
}

// text unquotes a JSON string; ok is false for every other kind.
func text(v jsontext.Value) (s string, ok bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	out, err := jsontext.AppendUnquote(nil, []byte(v))
	return string(out), err == nil
}

// Plain reports whether s is safe to display and to log: valid UTF-8 without control
// characters (C0, DEL, C1), format or bidi characters (Cf), and line or paragraph
// separators.
func Plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
		if s[i] >= 0x80 {
			return plainUnicode(s[i:])
		}
	}
	return true
}

func plainUnicode(s string) bool {
	for i, r := range s {
		if r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD") {
			return false
		}
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return false
		}
	}
	return true
}
