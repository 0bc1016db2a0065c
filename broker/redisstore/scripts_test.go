package redisstore_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/redisstore"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
)

// sent returns how often a server has run a command.
func sent(t *testing.T, c *redis.Client, command string) string {
	t.Helper()
	text, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "cmdstat_"+command+":calls=")
	n, _, _ := strings.Cut(rest, ",")
	return n
}

// TestScriptsGoByName: from its first call on, a store calls scripts by the names that
// the server returned, and sends the text of a script that the server has lost once. It
// does so with GODEBUG=fips140=only as well, where ebb cannot compute the names (SHA-1).
func TestScriptsGoByName(t *testing.T) {
	counterpart.Program(t, "redis-server")
	counterpart.FIPSOnly(t)
	server := redistest.Run(t)
	c := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer c.Close() //nolint:errcheck // only asked
	s := open(t, redisstore.Config{Addrs: []string{server.Addr}})
	mark := func(byName, byText string) {
		t.Helper()
		if err := s.Mark(t.Context()); err != nil {
			t.Fatal(err)
		}
		if name, text := sent(t, c, "evalsha"), sent(t, c, "eval"); name != byName || text != byText {
			t.Errorf("sent %s by name and %s by text, want %s and %s", name, text, byName, byText)
		}
	}
	mark("1", "")
	if err := c.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	mark("2", "1")
	mark("3", "1")
}

// TestScriptsWithoutLoad: an ACL user without the right to load scripts can use the
// store.
func TestScriptsWithoutLoad(t *testing.T) {
	server := redistest.Run(t)
	if got := server.Do("ACL SETUSER default -script|load"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	s := open(t, redisstore.Config{Addrs: []string{server.Addr}})
	if err := s.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
