package main

import (
	"testing"

	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// Only the database in the data directory, which is locked for one process, belongs to this process
// alone: another process may change a secret in a database at a configured path.
func TestExclusiveDatabase(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{"": true, "sqlite:///srv/ebb.db": false, "postgres://ebb@db/ebb": false} {
		if got := databaseConfig(config.Config{DataDir: "/data", Database: url}).Exclusive; got != want {
			t.Errorf("database %q: exclusive is %v, want %v", url, got, want)
		}
	}
}
