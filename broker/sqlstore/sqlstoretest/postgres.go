package sqlstoretest

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/storetest"
	"github.com/ebb-broker/ebb/migrations"
)

// Postgres returns the URL of a new database with the schema, on the server of
// EBB_TEST_POSTGRES. The template that it copies stays on the server, one for each
// schema.
func Postgres(t testing.TB) string {
	t.Helper()
	files, err := migrations.Files()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for _, f := range files {
		sum.Write([]byte(f.Checksum))
	}
	return storetest.PostgresLike(t, "ebb_schema_"+hex.EncodeToString(sum.Sum(nil))[:16], func(url string) {
		if _, err := sqlstore.Migrate(t.Context(), sqlstore.Config{URL: url}); err != nil {
			t.Fatal(err)
		}
	})
}
