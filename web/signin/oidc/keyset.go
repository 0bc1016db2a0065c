package oidc

import (
	"context"
	"crypto"
	"errors"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/ebb-broker/ebb/attest/jose"
)

// maxToken is the largest ID token in bytes. Some tokens list hundreds of
// groups.
const maxToken = 64 << 10

// keySet verifies one token with the provider's published keys. go-oidc's own
// key set also parses the certificates next to the keys (x5c) and go-jose
// computes their SHA-1, which panics with GODEBUG=fips140=only.
type keySet struct {
	keys *jose.KeyCache
	down error // why the keys could not be read; the library's error does not wrap it
}

// VerifySignature implements oidc.KeySet.
func (s *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	h, err := jose.ParseHeader(token, jose.Limits{Size: maxToken})
	if err != nil {
		return nil, err
	}
	k, err := s.keys.Key(ctx, h)
	if err != nil {
		if !errors.Is(err, jose.ErrToken) {
			s.down = err
		}
		return nil, err
	}
	return (&oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{k.Public}}).VerifySignature(ctx, token)
}
