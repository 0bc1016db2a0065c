package verify

import (
	"crypto/sha256"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

type cacheKey = [sha256.Size]byte

func keyOf(token string) cacheKey { return sha256.Sum256([]byte(token)) }

// cache holds tokens whose signature was verified, by the hash of the whole
// token, so that a token with one changed bit is a different entry. Only valid
// tokens are added, so an attacker needs valid tokens to displace entries.
type cache struct{ lru *lru.Cache[cacheKey, cached] }

type cached struct {
	token *Token
	gen   uint64 // generation of the key set that verified it
}

func newCache(size int) *cache {
	if size < 0 {
		return &cache{}
	}
	c, err := lru.New[cacheKey, cached](size)
	if err != nil {
		return &cache{} // only if size is not positive
	}
	return &cache{lru: c}
}

// get returns nil for a token that is unknown, expired, or was verified with an
// older key set, because its key may have been withdrawn.
func (c *cache) get(id cacheKey, gen uint64, now time.Time) *Token {
	if c.lru == nil {
		return nil
	}
	e, ok := c.lru.Get(id)
	if !ok {
		return nil
	}
	if e.gen != gen || !now.Before(e.token.ExpiresAt) || e.token.IssuedAt.After(now.Add(leeway)) {
		c.lru.Remove(id)
		return nil
	}
	return e.token
}

func (c *cache) put(id cacheKey, gen uint64, t *Token) {
	if c.lru != nil {
		c.lru.Add(id, cached{t, gen})
	}
}
