package crashtest_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/brokertest/crashtest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
	"github.com/ebb-broker/ebb/broker/sqlstore/sqlstoretest"
)

// crashParty is the configuration of a child's driver.
type crashParty struct {
	URL                     string
	ByHandle, Probes, Lists bool
}

// TestCrashChild is the broker that is killed; see crashtest.
func TestCrashChild(t *testing.T) {
	crashtest.Child(t, func(_ *testing.T, p crashParty) provider.Driver {
		return brokertest.Party{URL: p.URL, ByHandle: p.ByHandle, Probes: p.Probes, Lists: p.Lists}.Driver()
	})
}

func embedded(p crashParty) func(t *testing.T) crashtest.Party {
	return func(t *testing.T) crashtest.Party {
		t.Helper()
		up, p := brokertest.NewUpstream(t, nil), p
		p.URL = up.URL
		return crashtest.Party{Scope: "up:a:read", Driver: p, Alive: func(*testing.T) []string { return up.Alive() }}
	}
}

// I3: after kill -9 at every step of a mint, of a revocation, and of the recovery, no
// credential is alive and no revocation is pending, for providers with any abilities.
func TestCrashMatrix(t *testing.T) {
	for name, p := range map[string]crashParty{
		"found by name":               {},
		"by handle, probes and lists": {ByHandle: true, Probes: true, Lists: true},
	} {
		t.Run(name, func(t *testing.T) { crashtest.Run(t, embedded(p)) })
	}
}

// The provider finishes a mint long after its broker was killed, when the audit log says
// that no credential existed.
func TestCrashThenMintedLate(t *testing.T) {
	t.Parallel()
	crashtest.Late(t, func(t *testing.T) (crashtest.Party, <-chan struct{}, func()) {
		t.Helper()
		up := brokertest.NewUpstream(t, nil)
		asked, finish := make(chan struct{}), make(chan struct{})
		up.Before(func(op, _ string) {
			if op == brokertest.OpMint {
				close(asked)
				<-finish
			}
		})
		free := sync.OnceFunc(func() { close(finish) })
		t.Cleanup(free)
		return crashtest.Party{
			Scope: "up:a:read", Driver: crashParty{URL: up.URL, Lists: true}, Alive: func(*testing.T) []string { return up.Alive() },
		}, asked, free
	})
}

// The matrix on Redis and PostgreSQL, which keep running when the broker is killed.
func TestCrashMatrixOnServers(t *testing.T) {
	addrs := counterpart.Need(t, "EBB_TEST_REDIS")
	sqlstoretest.Postgres(t) // skips without a server
	party := embedded(crashParty{ByHandle: true, Probes: true, Lists: true})
	crashtest.Run(t, func(t *testing.T) crashtest.Party {
		t.Helper()
		p := party(t)
		p.Store, p.Redis, p.Prefix = sqlstoretest.Postgres(t), strings.Split(addrs, ","), "crash-"+rand.Text()
		t.Cleanup(func() {
			if _, err := redistest.Forget(context.Background(), redis.UniversalOptions{Addrs: p.Redis}, p.Prefix); err != nil {
				t.Error(err)
			}
		})
		return p
	})
}
