package jose

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/attest/fetch"
)

const (
	maxJWK     = 8 << 10   // an RSA-8192 key with its certificate thumbprints
	maxJWKS    = 256 << 10 // maximum size of a set in bytes
	maxJWKKeys = 100       // maximum number of keys in a set
)

var (
	jwkNames = []string{"kty", "crv", "x", "y", "n", "e", "d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv", "kid", "alg", "use", "key_ops"}
	// jwkPrivate are the members of private and symmetric keys (RFC 7518, sections 6.2.2,
	// 6.3.2, 6.4; RFC 9964).
	jwkPrivate = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"}
)

var (
	errJWK        = errors.New("jose: the JWK is not one strict JSON object")
	errJWKPrivate = errors.New("jose: the JWK has private or symmetric members; publish public keys only")
	errJWKUse     = errors.New("jose: the JWK is not for verifying signatures; its use or key_ops allows other operations")
	errJWKAlg     = errors.New("jose: the JWK has an alg that its key type does not support")
)

// ParseJWK parses one public signature key (RFC 7517, section 4). It refuses private and
// symmetric keys, weak RSA keys, points that are not on the curve, and keys whose use or
// key_ops allow other operations than signatures.
func ParseJWK(b []byte) (Key, error) {
	if len(b) > maxJWK {
		return Key{}, fmt.Errorf("jose: the JWK is larger than %d bytes", maxJWK)
	}
	m, err := decodeObject(b, Limits{Depth: 4, Members: 64})
	if err != nil || m.lookAlike(jwkNames) {
		return Key{}, errJWK
	}
	for _, name := range jwkPrivate {
		if _, found := m[name]; found {
			return Key{}, errJWKPrivate
		}
	}
	pub, err := decodePublic(m)
	if err != nil {
		return Key{}, err
	}
	k := Key{Public: pub}
	if k.Algs, err = algsFor(pub); err != nil {
		return Key{}, err
	}
	return k, k.label(m)
}

// label checks and stores kid, use, key_ops and alg.
func (k *Key) label(m members) error {
	var ok bool
	if v, found := m["kid"]; found {
		if k.KID, ok = text(v); !ok || !validKID(k.KID) {
			return errors.New("jose: the kid of the JWK is not 1 to 256 printable characters")
		}
	}
	if v, found := m["use"]; found {
		if k.Use, ok = text(v); !ok || k.Use != "sig" {
			return errJWKUse
		}
	}
	if v, found := m["key_ops"]; found {
		var ops []string
		if json.Unmarshal(v, &ops) != nil || !slices.Contains(ops, "verify") {
			return errJWKUse
		}
	}
	if v, found := m["alg"]; found {
		name, ok := text(v)
		if !ok || !k.allows(Alg(name)) {
			return errJWKAlg
		}
		k.Algs = slices.DeleteFunc(k.Algs, func(a Alg) bool { return a.canonical() != Alg(name).canonical() })
	}
	return nil
}

// KeySet is a parsed JWK Set. The zero KeySet is empty.
type KeySet struct{ keys []Key }

// NewKeySet returns a set of keys. Two keys with the same kid are an error.
func NewKeySet(keys ...Key) (KeySet, error) {
	var s KeySet
	for _, k := range keys {
		if slices.ContainsFunc(s.keys, func(o Key) bool { return o.KID == k.KID && k.KID != "" }) {
			return KeySet{}, errors.New("jose: two keys of the set have the same kid")
		}
		s.keys = append(s.keys, k)
	}
	return s, nil
}

// ParseJWKS parses a JWK Set (RFC 7517, section 5). Keys that ParseJWK refuses are skipped,
// as the RFC requires. Exception: a private or symmetric key makes the whole set invalid,
// because its publisher has disclosed a secret. Two usable keys with the same kid are an
// error. The set may be empty.
func ParseJWKS(b []byte) (KeySet, error) {
	if len(b) > maxJWKS {
		return KeySet{}, fmt.Errorf("jose: the JWK set is larger than %d bytes", maxJWKS)
	}
	m, err := decodeObject(b, Limits{Depth: 6, Members: 32 * maxJWKKeys})
	if err != nil || m.lookAlike([]string{"keys"}) {
		return KeySet{}, errors.New("jose: the JWK set is not one strict JSON object")
	}
	var list []jsontext.Value
	if v := m["keys"]; v.Kind() != jsontext.KindBeginArray || jsonv2.Unmarshal(v, &list) != nil {
		return KeySet{}, errors.New("jose: the JWK set has no array of keys")
	}
	if len(list) > maxJWKKeys {
		return KeySet{}, fmt.Errorf("jose: the JWK set has more than %d keys", maxJWKKeys)
	}
	keys := make([]Key, 0, len(list))
	for _, v := range list {
		k, err := ParseJWK(v)
		if errors.Is(err, errJWKPrivate) {
			return KeySet{}, err
		}
		if err == nil {
			keys = append(keys, k)
		}
	}
	return NewKeySet(keys...)
}

// Keys returns a copy of the keys.
func (s KeySet) Keys() []Key { return slices.Clone(s.keys) }

// Key is a KeySource. A kid must match exactly. For a header without kid, the set must
// contain exactly one key for the algorithm.
func (s KeySet) Key(h Header) (Key, error) {
	var found []Key
	for _, k := range s.keys {
		if k.allows(h.Alg) && (h.KID == "" || h.KID == k.KID) {
			found = append(found, k)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Key{}, refuse(ReasonKey, "the token must name one of the several keys of its issuer")
	}
	return Key{}, KeyUnknown()
}

// MarshalPublicJWK encodes the key with kid, use and, when the key has exactly one
// algorithm, alg. A Key has no private part.
func MarshalPublicJWK(k Key) ([]byte, error) {
	core, err := encodePublic(k.Public)
	if err != nil {
		return nil, err
	}
	labels := struct {
		Alg Alg    `json:"alg,omitempty"`
		KID string `json:"kid,omitempty"`
		Use string `json:"use"`
	}{KID: k.KID, Use: cmp.Or(k.Use, "sig")}
	if len(k.Algs) > 0 && !slices.ContainsFunc(k.Algs, func(a Alg) bool { return a.canonical() != k.Algs[0].canonical() }) {
		labels.Alg = k.Algs[0]
	}
	more, err := json.Marshal(labels)
	if err != nil {
		return nil, fmt.Errorf("jose: marshal JWK: %w", err)
	}
	return append(append(core[:len(core)-1], ','), more[1:]...), nil
}

// MarshalJWKS encodes a JWK Set in the order of the keys.
func MarshalJWKS(keys ...Key) ([]byte, error) {
	set := struct {
		Keys []json.RawMessage `json:"keys"`
	}{Keys: make([]json.RawMessage, 0, len(keys))}
	for _, k := range keys {
		jwk, err := MarshalPublicJWK(k)
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, jwk)
	}
	return json.Marshal(set)
}

// CacheConfig configures a KeyCache. Exactly one of Set, URL and File is required.
type CacheConfig struct {
	// Set is the JWK Set itself.
	Set []byte
	// URL is the URL of a JWK Set: https, or http on a loopback address. Redirects are not
	// followed.
	URL string
	// File is the path of a JWK Set. It is read again when it may have changed.
	File string
	// Fetch configures the requests to URL. NewKeyCache sets its MaxBytes.
	Fetch fetch.Config
	// MinAge, MaxAge, MaxStale, BackOff, Timeout and their defaults are those of
	// fetch.CacheConfig.
	MinAge, MaxAge, MaxStale, BackOff, Timeout time.Duration
	// Now is the clock, nil = time.Now. Logger: nil = discard.
	Now    func() time.Time
	Logger *slog.Logger
}

// KeyCache is the key set of one issuer, from the one source that the configuration names.
// It is safe for concurrent use. Tokens cannot change the source: a token with an unknown
// kid causes at most one fetch per BackOff.
type KeyCache struct {
	sets  *fetch.Cache[KeySet]
	fixed KeySet // used when sets is nil
}

// OnePlace reports whether the configuration has exactly one source of the key set.
func (c CacheConfig) OnePlace() bool {
	places := 0
	for _, named := range []bool{len(c.Set) > 0, c.File != "", c.URL != ""} {
		if named {
			places++
		}
	}
	return places == 1
}

// NewKeyCache checks the configuration. The first use of the cache fetches the key set.
func NewKeyCache(c CacheConfig) (*KeyCache, error) {
	if !c.OnePlace() {
		return nil, errors.New("jose: key cache: set exactly one of a JWK set, its URL and its file")
	}
	if len(c.Set) > 0 {
		set, err := ParseJWKS(c.Set)
		if err == nil && len(set.Keys()) == 0 {
			err = errors.New("jwks: no usable key in the set")
		}
		return &KeyCache{fixed: set}, err
	}
	read, err := readSet(c)
	if err != nil {
		return nil, fmt.Errorf("jose: key cache: %w", err)
	}
	sets, err := fetch.NewCache(fetch.CacheConfig[KeySet]{
		Read: read, Name: c.URL + c.File, MinAge: c.MinAge, MaxAge: c.MaxAge, MaxStale: c.MaxStale,
		BackOff: c.BackOff, Timeout: c.Timeout, Now: c.Now, Logger: c.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("jose: key cache: %w", err)
	}
	return &KeyCache{sets: sets}, nil
}

func readSet(c CacheConfig) (func(context.Context) (KeySet, time.Duration, error), error) {
	if c.File != "" {
		return func(context.Context) (KeySet, time.Duration, error) {
			b, err := fetch.ReadFile(c.File, maxJWKS)
			if err != nil {
				return KeySet{}, 0, err
			}
			set, err := ParseJWKS(b)
			return set, 0, err
		}, nil
	}
	c.Fetch.MaxBytes, c.Fetch.Timeout = maxJWKS, c.Timeout
	place, err := fetch.NewPlace(c.URL, c.Fetch)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (KeySet, time.Duration, error) {
		a, err := place.Get(ctx, "application/jwk-set+json, application/json")
		if err != nil {
			return KeySet{}, 0, err
		}
		set, err := ParseJWKS(a.Body)
		return set, a.MaxAge, err
	}, nil
}

// Key finds a key like KeySet.Key. An unknown kid makes it fetch the set again, once per
// BackOff for all callers together. Errors that do not match ErrToken mean that the keys
// could not be loaded. If the last fetch succeeded, an unknown key is an error of the token.
// If it failed, the key may exist, so the token cannot be judged.
func (k *KeyCache) Key(ctx context.Context, h Header) (Key, error) {
	if k.sets == nil {
		return k.fixed.Key(h)
	}
	set, err := k.sets.Get(ctx)
	if err != nil {
		return Key{}, err
	}
	key, err := set.Key(h)
	if !errors.Is(err, ErrKeyUnknown) {
		return key, err
	}
	renewed, fetchErr := k.sets.Renew(ctx)
	switch {
	case errors.Is(fetchErr, fetch.ErrNotDue):
		return Key{}, err
	case fetchErr != nil:
		return Key{}, fetchErr
	}
	return renewed.Key(h)
}
