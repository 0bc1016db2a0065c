package sqlstore_test

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/sqlstore"
)

// TestMD5InFIPSMode: a server that asks for a password by MD5, which FIPS mode forbids,
// gives an error with that reason and no panic.
//
//ebb:invariant I6 With `GODEBUG=fips140=only`, a PostgreSQL server that requests MD5 authentication is refused
func TestMD5InFIPSMode(t *testing.T) {
	if !counterpart.FIPSOnly(t) {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := pgproto3.NewBackend(c, c)
			if _, err := b.ReceiveStartupMessage(); err == nil {
				b.Send(&pgproto3.AuthenticationMD5Password{Salt: [4]byte{1, 2, 3, 4}})
				_ = b.Flush()
				_, _ = b.Receive()
			}
			_ = c.Close()
		}
	}()
	_, err = sqlstore.Open(t.Context(), sqlstore.Config{URL: "postgres://ebb:x@" + l.Addr().String() + "/ebb?sslmode=disable"})
	if err == nil || !strings.Contains(err.Error(), "asks for the password by MD5, which GODEBUG=fips140=only forbids") {
		t.Errorf("got %v", err)
	}
}
