package jose

import (
	"crypto/sha256"
	"encoding/base64"
	stdjson "encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

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

// Profile has the requirements for one kind of token. The zero value accepts no token.
// Types, Issuer and Audience distinguish kinds of tokens (RFC 8725, section 3.12).
type Profile struct {
	// Types are the accepted values of typ, without "application/", in any letter case.
	Types []string
	// AllowNoType accepts a token without typ.
	AllowNoType bool
	// Algs are the accepted algorithms. EdDSA and Ed25519 (RFC 9864) each include the other.
	Algs []Alg
	// Issuer is the exact iss. Required unless AnyIssuer.
	Issuer string
	// AnyIssuer accepts any or no iss: SPIFFE JWT-SVIDs, DPoP proofs.
	AnyIssuer bool
	// Audience must be the only aud, exactly. Required unless AnyAudience.
	Audience string
	// OtherAudiences may be in aud beside Audience: each of them could present the token to
	// ebb. Empty by default; client assertions never allow any (RFC 7523bis).
	OtherAudiences []string
	// IDToken checks azp as in OpenID Connect Core section 3.1.3.7: azp, if present, must be
	// Audience, and aud may then contain other audiences.
	IDToken bool
	// AnyAudience accepts any or no aud: DPoP proofs.
	AnyAudience bool
	// NoExp accepts a token without exp. An exp that is present is still checked.
	NoExp bool
	// MaxLifetime is the maximum of exp - iat. nbf, then now, replaces a missing iat. Zero
	// means 24 h; no workload token needs a longer lifetime.
	MaxLifetime time.Duration
	// MaxAge, when set, requires iat and refuses a token older than this.
	MaxAge time.Duration
	// Leeway is the tolerance for clock differences in exp, nbf and iat. Zero means none.
	Leeway time.Duration
	// Limits are the limits for Parse.
	Limits Limits
	// Passed, when set, is called with the name of each check that passed and with the value
	// that it found. 'ebb attest explain' displays them.
	Passed func(check, found string)
}

func (p *Profile) passed(check, found string) {
	if p.Passed != nil {
		p.Passed(check, found)
	}
}

// DefaultMaxLifetime applies when Profile.MaxLifetime is zero.
const DefaultMaxLifetime = 24 * time.Hour

func (p *Profile) allows(a Alg) bool {
	return slices.ContainsFunc(p.Algs, func(b Alg) bool { return a.canonical() == b.canonical() })
}

// check does all checks of a token that need no key. It runs before the signature check,
// because it is cheaper.
func (p *Profile) check(c *Claims, now time.Time) error {
	h := c.Header
	if !p.allows(h.Alg) {
		return refuse(ReasonAlgorithm, "the signature algorithm of the token is not accepted here")
	}
	p.passed("algorithm", string(h.Alg))
	typed := slices.ContainsFunc(p.Types, func(t string) bool { return h.Type == normalType(t) && h.Type != "" })
	if !typed && !(h.Type == "" && p.AllowNoType) {
		return refuse(ReasonType, "this type of token is not accepted here")
	}
	p.passed("type", h.Type)
	if !p.AnyIssuer && (p.Issuer == "" || c.Issuer != p.Issuer) {
		return refuse(ReasonIssuer, "the issuer of the token is not the expected one")
	}
	p.passed("issuer", c.Issuer)
	if !p.AnyAudience {
		if err := p.checkAudience(c); err != nil {
			return err
		}
	}
	p.passed("audience", p.Audience)
	if err := p.checkTime(c, now); err != nil {
		return err
	}
	if p.Passed != nil {
		p.Passed("time", c.Expiry.UTC().Format(time.RFC3339))
	}
	return nil
}

func (p *Profile) checkAudience(c *Claims) error {
	if p.Audience == "" || !slices.Contains(c.Audience, p.Audience) {
		return refuse(ReasonAudience, "the token is meant for another audience")
	}
	if p.IDToken && c.Has("azp") {
		if azp, ok := c.String("azp"); !ok || azp != p.Audience {
			return refuse(ReasonAudience, "the token was issued to another client (azp)")
		}
		return nil
	}
	if len(c.Audience) == 1 {
		return nil
	}
	unknown := func(a string) bool { return a != p.Audience && !slices.Contains(p.OtherAudiences, a) }
	if len(p.OtherAudiences) == 0 || p.IDToken || slices.ContainsFunc(c.Audience, unknown) {
		return refuse(ReasonAudience, "the token has more than one audience")
	}
	return nil
}

func (p *Profile) checkTime(c *Claims, now time.Time) error {
	leeway := max(p.Leeway, 0)
	if c.Expiry.IsZero() && !p.NoExp {
		return refuse(ReasonExpired, "the token has no expiry")
	}
	if !c.Expiry.IsZero() && !now.Before(c.Expiry.Add(leeway)) {
		return refuse(ReasonExpired, "the token has expired")
	}
	if now.Add(leeway).Before(c.NotBefore) || now.Add(leeway).Before(c.IssuedAt) {
		return refuse(ReasonNotYetValid, "the token is not valid yet; check the clock of its issuer")
	}
	if p.MaxAge > 0 && (c.IssuedAt.IsZero() || now.Sub(c.IssuedAt) > p.MaxAge+leeway) {
		return refuse(ReasonLifetime, "the token was not issued recently")
	}
	if c.Expiry.IsZero() {
		return nil
	}
	start := now
	if !c.NotBefore.IsZero() {
		start = c.NotBefore
	}
	if !c.IssuedAt.IsZero() {
		start = c.IssuedAt
	}
	limit := p.MaxLifetime
	if limit <= 0 {
		limit = DefaultMaxLifetime
	}
	if life := c.Expiry.Sub(start); life <= 0 || life > limit {
		return refuse(ReasonLifetime, "the lifetime of the token is not accepted; ask for a shorter one")
	}
	return nil
}

// LooksLikeJWT distinguishes a compact JWS from an opaque token, for callers that accept
// both. It does not validate the token.
func LooksLikeJWT(s string) bool { return strings.HasPrefix(s, "ey") && strings.Count(s, ".") == 2 }
