package redisstore

import (
	"strconv"
	"time"
)

const (
	// margin is how much longer keys live than they are read.
	margin = 10 * time.Minute
	// claimMargin is the margin of claims, which are many.
	claimMargin = time.Minute
	// retention is how long an expired lease still counts as expired.
	retention = 10 * time.Minute
)

// keys returns the names of keys.
type keys struct{ prefix string }

func (k keys) task(id string) string              { return k.prefix + ":{" + id + "}:t" }
func (k keys) leases(task string) string          { return k.prefix + ":{" + task + "}:l" }
func (k keys) ended(task string) string           { return k.prefix + ":{" + task + "}:e" }
func (k keys) unpublished(t string) string        { return k.prefix + ":{" + t + "}:u" }
func (k keys) held(owner string) string           { return k.prefix + ":{o:" + owner + "}:l" }
func (k keys) counts(owner string) string         { return k.prefix + ":{o:" + owner + "}:n" }
func (k keys) due() string                        { return k.prefix + ":due" }
func (k keys) feed() string                       { return k.prefix + ":feed" }
func (k keys) claim(key string) string            { return k.prefix + ":c:" + key }
func (k keys) rate(key string) string             { return k.prefix + ":r:" + key }
func (k keys) value(key string) string            { return k.prefix + ":v:" + key }
func (k keys) pace(key string) string             { return k.prefix + ":p:" + key }
func (k keys) marks() string                      { return k.prefix + ":marks" }
func (k keys) lossMarker(tag string) string       { return k.prefix + ":marker:{" + tag + "}" }
func instant(ms int64) time.Time                  { return time.UnixMilli(ms).UTC() }
func ttl(until, now int64, m time.Duration) int64 { return max(until-now, 0) + m.Milliseconds() }

// millis returns t in Unix milliseconds, 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func number(s string) int64 {
	v, _ := strconv.ParseInt(s, 10, 64) // written by our own scripts
	return v
}
