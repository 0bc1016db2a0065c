package jose

import (
	"encoding/base64"
	"strings"
)

// Limits bound what Parse looks at. The zero value means the defaults.
type Limits struct {
	// Size of the whole token in bytes. Default 16 KiB.
	Size int
	// Depth of nested JSON objects and arrays, the outermost included. Default 16.
	Depth int
	// Members of all JSON objects of one part, nested ones included. Default 256.
	Members int
	// EmbeddedKey admits the header parameter jwk. It is for DPoP proofs
	// (RFC 9449, section 4.2) alone: there the key is the thing proved.
	EmbeddedKey bool
	// Headers that were understood under these very limits; nil = none are kept.
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

// Unverified is a token that passed the gate. Nothing in it is true yet: use it
// to choose a configured verifier, never to decide.
type Unverified struct {
	claims    *Claims
	signature []byte
}

// Header returns the header. It is not authenticated.
func (u *Unverified) Header() Header { return u.claims.Header }

// Claims returns the claims. They are not authenticated.
func (u *Unverified) Claims() *Claims { return u.claims }

// Parse is the gate: it looks at every byte of a compact JWS and does no
// cryptography. Errors match ErrToken.
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

// ParseHeader is Parse without the claims, for a token of which another reader judges them.
func ParseHeader(token string, lim Limits) (Header, error) {
	p, err := split(token, lim.withDefaults())
	return p.header, err
}

// parts is a compact JWS after the first half of the gate, which does not care
// what the payload is.
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
		// Strict: the unused bits of the last character must be zero, or the same
		// bytes would have several spellings.
		if *d.to, err = base64.RawURLEncoding.Strict().DecodeString(d.from); err != nil {
			return parts{}, errParts
		}
	}
	// A copy, so that what is kept of the token does not keep the request alive.
	p.signingInput = strings.Clone(token[:two])
	p.header, err = lim.Headers.parse(token[:one], lim)
	return p, err
}
