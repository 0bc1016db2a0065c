package verify

import (
	"crypto/sha256"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

type cacheKey = [sha256.Size]byte

func keyOf(token string) cacheKey { return sha256.Sum256([]byte(token)) }

// cache remembers tokens whose signature was checked, by the hash of their whole
// text, so that a token with one bit changed is another one. Only good tokens
// get in: nobody can push them out without having as many.
type cache struct{ lru *lru.Cache[cacheKey, cached] }

type cached struct {
	token *Token
	gen   uint64 // of the key set it was checked against
}

func newCache(size int) *cache {
	if size < 0 {
		return &cache{}
	}
	c, err := lru.New[cacheKey, cached](size)
	if err != nil {
		return &cache{} // only for a size that was not positive
	}
	return &cache{lru: c}
}

// get returns nil for what is unknown, expired, or was checked against keys that
// have changed since: a key that was withdrawn takes its tokens along.
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
