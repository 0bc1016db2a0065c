package sqlstoretest

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"ebb/broker/sqlstore"
	"ebb/broker/storetest"
	"ebb/migrations"
)

// Postgres is the URL of a database of its own that has the schema, on the server of
// EBB_TEST_POSTGRES. One that it is copied from stays there, of each schema one.
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
