package jose

import (
	"encoding/base64"
	"strings"

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
