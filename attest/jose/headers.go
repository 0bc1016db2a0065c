package jose

import (
	"encoding/base64"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxKnown is the longest text of a header that is remembered, in bytes: any key
// up to RSA-8192 fits.
const maxKnown = 2 << 10

// Headers remembers the headers that a gate has understood, by their exact text.
// A client signs all its DPoP proofs under one header with its key in it, and
// reading that key costs more than reading the proof.
//
// It decides nothing: what a header means depends on its text and the Limits
// alone, and claims, signature and replay are looked at each time. So whoever
// fills it with headers of their own makes others pay what everybody paid without
// it. Use one with one set of Limits. It is safe for concurrent use, and nobody
// may change a Header that came out of it.
type Headers struct{ known *lru.Cache[string, Header] }

// NewHeaders remembers up to n headers, at most some 4 KiB each.
func NewHeaders(n int) (*Headers, error) {
	known, err := lru.New[string, Header](n)
	return &Headers{known}, err
}

// parse reads the first part of a token. A nil Headers remembers nothing.
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
