package storetest

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ebb/broker/brokertest/counterpart"
)

// Postgres creates an empty database on the server of EBB_TEST_POSTGRES (a URL
// whose user may create databases) and returns its URL; the end of the test
// drops it.
func Postgres(t testing.TB) string {
	t.Helper()
	return postgres(t, "")
}

// PostgresSorted is Postgres with text sorted as people of a language sort it, which is
// what a database is set up with in most places: there "~" comes before every letter.
func PostgresSorted(t testing.TB) string {
	t.Helper()
	return postgres(t, " TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
}

func postgres(t testing.TB, with string) string {
	t.Helper()
	server := counterpart.Need(t, "EBB_TEST_POSTGRES")
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("EBB_TEST_POSTGRES is not a URL")
	}
	name := "ebb_test_" + strings.ToLower(rand.Text())
	PostgresExec(t, server, "CREATE DATABASE "+name+with)
	t.Cleanup(func() { PostgresExec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	return u.String()
}

// PostgresExec runs one statement on a connection of its own.
func PostgresExec(t testing.TB, server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatal(err)
	}
}
