package jose

import (
	"crypto"
	"crypto/rsa"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// KeySource returns the key for a header. It returns KeyUnknown() when it has no such key,
// and any other error when the keys could not be read. Only h.KID and h.Alg may influence
// the result.
type KeySource func(h Header) (Key, error)

// Verify parses a token, checks it against the profile and verifies its signature. Errors
// that match ErrToken, ErrKeyUnknown among them, are the caller's fault. Other errors of
// keys are returned unchanged.
func Verify(token string, p Profile, keys KeySource, now time.Time) (*Claims, error) {
	u, err := Parse(token, p.Limits)
	if err != nil {
		return nil, err
	}
	return u.Verify(p, keys, now)
}

// Check is Verify without the signature, for a token that the issuer's API will verify. The
// claims are not authenticated.
func (u *Unverified) Check(p Profile, now time.Time) (*Claims, error) {
	if err := p.check(u.claims, now); err != nil {
		return nil, err
	}
	return u.claims, nil
}

// Verify is the second half of the function Verify.
func (u *Unverified) Verify(p Profile, keys KeySource, now time.Time) (*Claims, error) {
	if _, err := u.Check(p, now); err != nil {
		return nil, err
	}
	k, err := keys(u.claims.Header)
	if err != nil {
		return nil, err
	}
	if err := k.verify(u.claims.Header.Alg, u.claims.signingInput, u.signature); err != nil {
		return nil, err
	}
	p.passed("signature", u.claims.Header.KID)
	return u.claims, nil
}

func (k Key) verify(a Alg, signingInput string, sig []byte) error {
	m := method(a)
	if m == nil || !k.allows(a) {
		return refuse(ReasonAlgorithm, "the signature algorithm of the token does not suit its key")
	}
	if m.Verify(signingInput, sig, k.Public) != nil {
		return refuse(ReasonSignature, "the signature of the token is not valid")
	}
	return nil
}

// method returns golang-jwt's implementation of an allowed algorithm. golang-jwt's own
// registry is not used, because it is mutable and contains "none" and HMAC.
func method(a Alg) jwt.SigningMethod {
	switch a {
	case ES256:
		return jwt.SigningMethodES256
	case ES384:
		return jwt.SigningMethodES384
	case ES512:
		return jwt.SigningMethodES512
	case EdDSA, Ed25519:
		return jwt.SigningMethodEdDSA
	case RS256:
		return jwt.SigningMethodRS256
	case RS384:
		return jwt.SigningMethodRS384
	case RS512:
		return jwt.SigningMethodRS512
	case PS256:
		return pss(jwt.SigningMethodPS256, crypto.SHA256)
	case PS384:
		return pss(jwt.SigningMethodPS384, crypto.SHA384)
	case PS512:
		return pss(jwt.SigningMethodPS512, crypto.SHA512)
	}
	return nil
}

// pss returns m with the salt length set to the length of the hash (RFC 7518, section 3.5).
// golang-jwt accepts any salt length on verification.
func pss(m *jwt.SigningMethodRSAPSS, h crypto.Hash) jwt.SigningMethod {
	opts := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: h}
	return &jwt.SigningMethodRSAPSS{SigningMethodRSA: m.SigningMethodRSA, Options: opts, VerifyOptions: opts}
}

// Limits bound the input of Parse. The zero value means the defaults.
type Limits struct {
	// Size is the maximum size of the whole token in bytes. Default 16 KiB.
	Size int
	// Depth is the maximum depth of nested JSON objects and arrays, the outermost included.
	// Default 16.
	Depth int
	// Members is the maximum number of members in all JSON objects of one part, nested ones
	// included. Default 256.
	Members int
	// EmbeddedKey allows the header parameter jwk. Only DPoP proofs may use it (RFC 9449,
	// section 4.2), because a proof shows the possession of this very key.
	EmbeddedKey bool
	// Headers caches headers that were parsed under the same limits; nil means no cache.
	Headers *Headers
}

func (l Limits) withDefaults() Limits {
	if l.Size <= 0 {
		l.Size = 16 << 10
	}
	if l.Depth <= 0 {
		l.Depth = 16
	}
	if l.Members <= 0 {
		l.Members = 256
	}
	return l
}

// Unverified is a parsed token. Its contents are not authenticated: use them to choose a
// configured verifier, never for a decision.
type Unverified struct {
	claims    *Claims
	signature []byte
}

// Header returns the header. It is not authenticated.
func (u *Unverified) Header() Header { return u.claims.Header }

// Claims returns the claims. They are not authenticated.
func (u *Unverified) Claims() *Claims { return u.claims }

// Parse parses every byte of a compact JWS strictly, without cryptography. Errors match
// ErrToken.
func Parse(token string, lim Limits) (*Unverified, error) {
	p, err := split(token, lim.withDefaults())
	if err != nil {
		return nil, err
	}
	m, err := decodeObject(p.payload, lim.withDefaults())
	if err != nil {
		return nil, refuseBecause(ReasonMalformed, "the payload of the token is not one strict JSON object", err)
	}
	c, err := newClaims(m)
	if err != nil {
		return nil, err
	}
	c.Header, c.payload, c.signingInput = p.header, p.payload, p.signingInput
	return &Unverified{claims: c, signature: p.signature}, nil
}

// parts is a compact JWS whose header is parsed and whose payload is not.
type parts struct {
	header       Header
	signingInput string
	payload      []byte
	signature    []byte
}

var errParts = refuse(ReasonMalformed, "the token is not three base64url parts")

func split(token string, lim Limits) (parts, error) {
	if len(token) > lim.Size {
		return parts{}, refuse(ReasonOversized, "the token is too large")
	}
	one, two := 0, 0
	for i := 0; i < len(token); i++ {
		switch c := token[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_':
		case c == '.' && one == 0 && i > 0:
			one = i
		case c == '.' && two == 0 && i > one+1 && one > 0 && i < len(token)-1:
			two = i
		default:
			return parts{}, errParts
		}
	}
	if two == 0 {
		return parts{}, errParts
	}
	var p parts
	var err error
	for _, d := range []struct {
		to   *[]byte
		from string
	}{{&p.payload, token[one+1 : two]}, {&p.signature, token[two+1:]}} {
		// Strict: the unused bits of the last character must be zero; otherwise the same
		// bytes would have several encodings.
		if *d.to, err = base64.RawURLEncoding.Strict().DecodeString(d.from); err != nil {
			return parts{}, errParts
		}
	}
	// A copy, so that the retained part of the token does not keep the request's memory
	// alive.
	p.signingInput = strings.Clone(token[:two])
	p.header, err = lim.Headers.parse(token[:one], lim)
	return p, err
}

// ErrToken is matched by every error that is the caller's fault. An error that
// does not match it means that the token could not be judged (for example: the
// keys could not be loaded).
var ErrToken = errors.New("jose: token refused")

// ErrKeyUnknown is matched, beside ErrToken, when no key has the token's kid. The owner of a
// remote key set may fetch it again and retry once.
var ErrKeyUnknown = errors.New("jose: key unknown")

// Reason is why a token was refused: one of a fixed set, suitable as a metrics label.
type Reason string

// The reasons.
const (
	ReasonMalformed   Reason = "malformed"
	ReasonOversized   Reason = "oversized"
	ReasonHeader      Reason = "header"
	ReasonType        Reason = "type"
	ReasonAlgorithm   Reason = "algorithm"
	ReasonKey         Reason = "key"
	ReasonKeyUnknown  Reason = "key_unknown"
	ReasonSignature   Reason = "signature"
	ReasonIssuer      Reason = "issuer"
	ReasonAudience    Reason = "audience"
	ReasonExpired     Reason = "expired"
	ReasonNotYetValid Reason = "not_yet_valid"
	ReasonLifetime    Reason = "lifetime"
	ReasonClaims      Reason = "claims"
)

// Error is the refusal of a token. Public is one sentence without quotes and backslashes, so
// that it is valid as error_description (RFC 6749), and contains nothing from the token.
type Error struct {
	Reason Reason
	Public string
	cause  error
}

func (e *Error) Error() string {
	if e.cause == nil {
		return "token refused: " + e.Public
	}
	return "token refused: " + e.Public + ": " + e.cause.Error()
}

// Unwrap returns the cause, which is for logs and not for the caller.
func (e *Error) Unwrap() error { return e.cause }

// Is matches ErrToken always and ErrKeyUnknown for that reason.
func (e *Error) Is(target error) bool {
	return target == ErrToken || (target == ErrKeyUnknown && e.Reason == ReasonKeyUnknown)
}

func refuse(r Reason, public string) error { return &Error{Reason: r, Public: public} }

func refuseBecause(r Reason, public string, cause error) error {
	return &Error{Reason: r, Public: public, cause: cause}
}

// KeyUnknown returns the error of a KeySource that has no key for a header.
func KeyUnknown() error {
	return refuse(ReasonKeyUnknown, "the token names a key that its issuer does not publish")
}

// LooksLikeJWT distinguishes a compact JWS from an opaque token, for callers that accept
// both. It does not validate the token.
func LooksLikeJWT(s string) bool { return strings.HasPrefix(s, "ey") && strings.Count(s, ".") == 2 }
