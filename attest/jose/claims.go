package jose

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Claims are the claims of one token. Absent registered claims are "" or zero. Claims from
// Verify are authenticated; claims from Parse are not.
type Claims struct {
	Header Header

	Issuer   string   // iss
	Subject  string   // sub
	Audience []string // aud, a single string or an array of strings
	ID       string   // jti
	ClientID string   // client_id (RFC 8693, section 4.3)

	Expiry    time.Time // exp
	NotBefore time.Time // nbf
	IssuedAt  time.Time // iat

	members      members
	payload      []byte
	signingInput string
}

// claimNames are the registered names. A case-insensitive parser could mistake similar names
// for them.
var claimNames = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "client_id", "azp", "scope", "cnf", "act", "may_act",
	"authorization_details", "nonce", "htm", "htu", "ath", "task_id", "txn", "sid", "acr", "amr", "auth_time", "events", "status",
}

const (
	maxName      = 2048 // a SPIFFE ID is the longest name in use (SPIFFE-ID, section 2.3)
	maxJTI       = 256
	maxAudiences = 64
	maxDate      = 253402300799 // 9999-12-31T23:59:59Z, the last time that RFC 3339 can express
)

func newClaims(m members) (*Claims, error) {
	if m.lookAlike(claimNames) {
		return nil, refuse(ReasonMalformed, "the token has look-alike claims")
	}
	c := &Claims{members: m}
	for _, s := range []struct {
		name string
		to   *string
		max  int
	}{{"iss", &c.Issuer, maxName}, {"sub", &c.Subject, maxName}, {"client_id", &c.ClientID, maxName}, {"jti", &c.ID, maxJTI}} {
		v, found := m[s.name]
		if !found {
			continue
		}
		val, ok := text(v)
		if !ok || val == "" || len(val) > s.max || !Plain(val) {
			return nil, refuse(ReasonClaims, "a name in the token (iss, sub, client_id, jti) is not a short plain string")
		}
		*s.to = val
	}
	for _, d := range []struct {
		name string
		to   *time.Time
	}{{"exp", &c.Expiry}, {"nbf", &c.NotBefore}, {"iat", &c.IssuedAt}} {
		v, found := m[d.name]
		if !found {
			continue
		}
		t, ok := date(v)
		if !ok {
			return nil, refuse(ReasonClaims, "a date in the token (exp, nbf, iat) is not a NumericDate")
		}
		*d.to = t
	}
	v, found := m["aud"]
	if !found {
		return c, nil
	}
	var ok bool
	if c.Audience, ok = audience(v); !ok {
		return nil, refuse(ReasonAudience, "the audience of the token is not a string or an array of strings")
	}
	return c, nil
}

// date reads a NumericDate (RFC 7519, section 2): a JSON number, never a string.
func date(v jsontext.Value) (time.Time, bool) {
	if v.Kind() != jsontext.KindNumber || len(v) > 32 {
		return time.Time{}, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > maxDate {
		return time.Time{}, false
	}
	sec, frac := math.Modf(f)
	return time.Unix(int64(sec), int64(frac*1e9)).UTC(), true
}

func audience(v jsontext.Value) ([]string, bool) {
	var all []string
	switch v.Kind() {
	case jsontext.KindString:
		one, ok := text(v)
		if !ok {
			return nil, false
		}
		all = []string{one}
	case jsontext.KindBeginArray:
		// Decode into pointers, because a null would otherwise become "".
		var list []*string
		if json.Unmarshal(v, &list) != nil {
			return nil, false
		}
		for _, p := range list {
			if p == nil {
				return nil, false
			}
			all = append(all, *p)
		}
	}
	for _, a := range all {
		if a == "" || len(a) > maxName || !Plain(a) {
			return nil, false
		}
	}
	return all, len(all) > 0 && len(all) <= maxAudiences
}

// Digest returns the base64url SHA-256 of the signing input. It is the same for every valid
// signature of one signed statement.
func (c *Claims) Digest() string {
	sum := sha256.Sum256([]byte(c.signingInput))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Has reports whether the claim is present, with any value.
func (c *Claims) Has(name string) bool { _, ok := c.members[name]; return ok }

// String returns a claim that is a JSON string.
func (c *Claims) String(name string) (string, bool) { return text(c.members[name]) }

// Raw returns the JSON text of a claim.
func (c *Claims) Raw(name string) (stdjson.RawMessage, bool) {
	v, ok := c.members[name]
	return stdjson.RawMessage(v), ok
}

// Payload returns the JSON text of all claims. The caller must not change it.
func (c *Claims) Payload() stdjson.RawMessage { return c.payload }

// Decode decodes the claims into a struct. Names must match exactly, with letter case,
// unlike in encoding/json. Errors match ErrToken.
func (c *Claims) Decode(into any) error {
	if err := json.Unmarshal(c.payload, into); err != nil {
		return refuseBecause(ReasonClaims, "a claim of the token has the wrong type", fmt.Errorf("decode claims into %T", into))
	}
	return nil
}

// DecodeClaim decodes one claim into a value, like Decode. An absent claim is an error.
func (c *Claims) DecodeClaim(name string, into any) error {
	v, ok := c.members[name]
	if !ok {
		return refuse(ReasonClaims, "the token lacks a required claim")
	}
	if err := json.Unmarshal(v, into); err != nil {
		return refuseBecause(ReasonClaims, "a claim of the token has the wrong type", fmt.Errorf("decode one claim into %T", into))
	}
	return nil
}

// Confirmation returns the key that the token is bound to (cnf, RFC 7800): the jkt of RFC
// 9449 or the x5t#S256 of RFC 8705. Both are "" without cnf. A cnf with another member or
// with more than one member is refused, because no code would check the rest.
func (c *Claims) Confirmation() (jkt, x5t string, err error) {
	v, found := c.members["cnf"]
	if !found {
		return "", "", nil
	}
	m, err := decodeObject(v, Limits{}.withDefaults())
	if err != nil || len(m) != 1 {
		return "", "", refuse(ReasonClaims, "the token is not bound to exactly one key")
	}
	for name, v := range m {
		s, ok := text(v)
		switch {
		case !ok || !validDigest(s):
		case name == "jkt":
			return s, "", nil
		case name == "x5t#S256":
			return "", s, nil
		}
	}
	return "", "", refuse(ReasonClaims, "the token is not bound to exactly one key")
}

// validDigest reports whether s is the base64url text of 32 bytes.
func validDigest(s string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return err == nil && len(b) == sha256.Size && len(s) == 43
}

// Made returns the time at which a token was made, or an earlier time: iat, else nbf. For a
// token without both it returns the epoch, because such a token may be arbitrarily old.
func (c *Claims) Made() time.Time {
	switch {
	case !c.IssuedAt.IsZero():
		return c.IssuedAt
	case !c.NotBefore.IsZero():
		return c.NotBefore
	}
	return time.Unix(0, 0)
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
