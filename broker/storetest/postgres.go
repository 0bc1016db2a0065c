package storetest

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// Postgres creates an empty database on the server of EBB_TEST_POSTGRES, a URL whose user
// may create databases, and returns its URL. The end of the test drops the database.
func Postgres(t testing.TB) string {
	t.Helper()
	return postgres(t, "").String()
}

// PostgresSorted is Postgres with a language's collation, which most installations use by
// default: in it "~" sorts before every letter.
func PostgresSorted(t testing.TB) string {
	t.Helper()
	return postgres(t, " TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'").String()
}

// PostgresLike returns a copy of the database template. If template does not exist, fill
// makes it; it is not dropped.
func PostgresLike(t testing.TB, template string, fill func(url string)) string {
	t.Helper()
	server := counterpart.Need(t, "EBB_TEST_POSTGRES")
	if !postgresHas(t, server, template) {
		u := postgres(t, "")
		fill(u.String())
		// The first test renames its database; the databases of the others are dropped
		// with their tests.
		err := onPostgres(server, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "ALTER DATABASE "+u.Path[1:]+" RENAME TO "+template)
			return err
		})
		if err != nil && !postgresHas(t, server, template) {
			t.Fatal(err)
		}
	}
	return postgres(t, " TEMPLATE "+template).String()
}

func postgresHas(t testing.TB, server, name string) (is bool) {
	t.Helper()
	if err := onPostgres(server, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&is)
	}); err != nil {
		t.Fatal(err)
	}
	return is
}

func postgres(t testing.TB, with string) *url.URL {
	t.Helper()
	server := counterpart.Need(t, "EBB_TEST_POSTGRES")
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("EBB_TEST_POSTGRES is not a URL")
	}
	name := "ebb_test_" + strings.ToLower(rand.Text())
	PostgresExec(t, server, "CREATE DATABASE "+name+with)
	t.Cleanup(func() { PostgresExec(t, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	return u
}

// PostgresExec runs one statement on a new connection.
func PostgresExec(t testing.TB, server, statement string) {
	t.Helper()
	if err := PostgresDo(server, statement); err != nil {
		t.Fatal(err)
	}
}

// PostgresDo is PostgresExec for a statement that may fail.
func PostgresDo(server, statement string) error {
	return onPostgres(server, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

func onPostgres(server string, do func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return do(ctx, conn)
}
