package jose

import (
	"crypto/sha256"
	"encoding/base64"
	stdjson "encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Claims are the claims of one token. Absent registered claims are "" or zero.
// From Verify they are authenticated; from Parse they are not.
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

// Names that a case-insensitive reader could take for the real ones.
var claimNames = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "client_id", "azp", "scope", "cnf", "act", "may_act",
	"authorization_details", "nonce", "htm", "htu", "ath", "task_id", "txn", "sid", "acr", "amr", "auth_time", "events", "status",
}

const (
	maxName      = 2048 // a SPIFFE ID is the longest name there is (SPIFFE-ID, section 2.3)
	maxJTI       = 256
	maxAudiences = 64
	maxDate      = 253402300799 // 9999-12-31T23:59:59Z, the last that RFC 3339 can print
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
		// Into pointers, because a null would otherwise become "".
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

// Digest is the base64url SHA-256 of the signing input: one value for one
// signed statement, whichever of its valid signatures came with it.
func (c *Claims) Digest() string {
	sum := sha256.Sum256([]byte(c.signingInput))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Has reports whether the claim is present, whatever its value.
func (c *Claims) Has(name string) bool { _, ok := c.members[name]; return ok }

// String returns a claim that is a JSON string.
func (c *Claims) String(name string) (string, bool) { return text(c.members[name]) }

// Raw returns the JSON text of a claim.
func (c *Claims) Raw(name string) (stdjson.RawMessage, bool) {
	v, ok := c.members[name]
	return stdjson.RawMessage(v), ok
}

// Payload returns the JSON text of all claims. Treat it as read-only.
func (c *Claims) Payload() stdjson.RawMessage { return c.payload }

// Decode fills a struct from the claims. Names match exactly, by letter case,
// unlike in encoding/json. Errors match ErrToken.
func (c *Claims) Decode(into any) error {
	if err := json.Unmarshal(c.payload, into); err != nil {
		return refuseBecause(ReasonClaims, "a claim of the token has the wrong type", fmt.Errorf("decode claims into %T", into))
	}
	return nil
}

// DecodeClaim fills a value from one claim, like Decode. Absent claims are an error.
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

// Confirmation returns the key that the token is bound to (cnf, RFC 7800): the
// jkt of RFC 9449 or the x5t#S256 of RFC 8705. Both are "" without cnf. More
// than one member, or any other, is refused: nobody would check it.
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

// Made is when a token was made, or no later: iat, else nbf; a token without both may
// be as old as can be, and that is the epoch.
func (c *Claims) Made() time.Time {
	switch {
	case !c.IssuedAt.IsZero():
		return c.IssuedAt
	case !c.NotBefore.IsZero():
		return c.NotBefore
	}
	return time.Unix(0, 0)
}
