package vault_test

import (
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/crashtest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/vault"
)

// TestCrashChild is a broker that is killed; see crashtest.
func TestCrashChild(t *testing.T) {
	crashtest.Child(t, func(t *testing.T, c vault.Config) provider.Driver {
		t.Helper()
		return driver(t, c)
	})
}

// TestCrashMatrix: I3, with leases of a real server: a kill -9 at any step leaves no lease.
// The class is eventual, so brokers with a fast clock make their probes sooner.
func TestCrashMatrix(t *testing.T) {
	newBed(t) // skips without a server
	crashtest.Run(t, func(t *testing.T) crashtest.Party {
		t.Helper()
		b := newBed(t)
		return crashtest.Party{
			Scope: "db:orders:read", Driver: b.cfg, Fast: 10,
			Alive: func(t *testing.T) []string {
				t.Helper()
				s, err := b.Root.Logical().ListWithContext(t.Context(), "sys/leases/lookup/"+b.mount+"/creds/ro")
				if err != nil {
					t.Fatal(err)
				}
				if s == nil {
					return nil
				}
				var out []string
				for _, k := range s.Data["keys"].([]any) { //nolint:forcetypeassert // a test
					out = append(out, k.(string)) //nolint:forcetypeassert // a test
				}
				return out
			},
		}
	})
}
