package migrations_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/migrations"
)

// released are the checksums of the released files. A change of a released file would leave
// databases that no code fits: write a new file.
var released = []string{
	"0001_journal.sql 2945fa31eff5de363cf6ff1a2a5a5962c788d76e7b3d32f53a6a0a155181ee07",
	"0002_sealing.sql 71e24d2f8e2ad03fa8236dee061b9d7db187372135f9f92fc53cde566f1adafd",
	"0003_lineage.sql aba3f7bcd36fb1090296921fc82dc91dd6199ddca48f2a68c630a3277fc77313",
	"0004_upstream.sql a856b171f131d1053bb414bb7977ce7a762331f31c8c8cf6df731cba99066882",
	"0005_secrets.sql 49d27bfc588f5bd3a52d4e415224cb6ab6dfc271b7ec0bfdc68a74cf66063318",
	"0006_delegation.sql b17142ea9f22376023e0016391796b9456bd78119f515821861d28ea0e96781e",
	"0007_unjudged.sql 53fdf5cbb728a84a4e754aec440b1f978f567bebe37e4ded68013c3c6381e225",
	"0008_secret_version.sql f767d966865b4550fe9f3920f67be8bc5d1e57c15d0c2e3a34cc5a1ca28d2a74",
	"0009_sessions.sql 4805f428dfeddf6035dbebafbf1075b6303644658b5b566135ff961de22671c4",
	"0010_queue.sql ac5035b56d20e40af656572a0715eaafb30fd3c4a62f4da71a4b0f1b5df6847f",
	"0011_lists.sql b65598fae333ed773bd23e2e6c5576feaec259777389e2191cfe669ec3fc21dd",
	"0012_insights.sql 8c05266c546605679f24fcdd988a0f76ef58fa612937ed6271357d67c9cb6730",
	"0013_also.sql c9e7ed127bd78444f38250c0f074bab772df3804613804556bfe51b4629cf7d5",
	"0014_passkeys.sql 5cd7c87a8b07d375b5f004bb91ee082895ce9cf49b5fc213e3d7964e864b469e",
	"0015_held.sql 1399dc1aff1d4aa123a9679964a65118f904a2ceb0dfdab4c22d4c62a761e78b",
	"0016_vote_names.sql 4dbd14547e10faec0173d6414a575d6cffc8a97a9976a3c77e382902f2f9d11c",
	"0017_policies.sql f18d8fd499277e271ca495331b3f65f211ec914ee94f6853fdcbf0d1aae5e0a5",
	"0018_notifications.sql a7d65bb22a66a04366df3a9ddc50cbb3e0af4ba1e9833391c498951482dedfe5",
	"0019_newest.sql da705a653478137361cc8dcc2ab40a05031e82ddb58747b74d7908e19b2ce895",
	"0020_break_glass.sql d9f8b1a2cf4799d1f8d5112bd6fc8745a865e92cdcb581d95b201cd3fcd9f026",
	"0021_delivery.sql 177d8b65b7a4347b5a3e2e3f0476fe6d3f5a7bc3f2f36b86f6a7dfd951135de0",
	"0022_break_glass_holds.sql 71b432f9e28abd935695484f9b04fe40a7c0686fd8a34d69f4e384c53ff2bb86",
	"0023_shown_at.sql 85967a2e8303fd705b9c5bc0a16676b73675a8abec95888728e88821aa0675c7",
	"0024_push.sql c14423a607442059f192db1f2873f1e945cef8a4f7790faf2f1cb6a0469d6dc1",
	"0025_spending.sql d2bf0ee112b5a53c71ab42c7c20305547566da88b7073ab7ada3eca57ebd51ba",
}

func TestReleasedFilesNeverChange(t *testing.T) {
	t.Parallel()
	files, err := migrations.Files()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Name+" "+f.Checksum)
	}
	if !slices.Equal(got, released) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(released, "\n"))
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, names := range map[string][]string{
		"gap": {"0001_a.sql", "0003_b.sql"}, "start": {"0002_a.sql"}, "twice": {"0001_a.sql", "0001_b.sql"}, "short": {"1_a.sql"}, "no name": {"0001.sql"}, "letters": {"000x_a.sql"},
	} {
		fsys := fstest.MapFS{}
		for _, n := range names {
			fsys[n] = &fstest.MapFile{Data: []byte("SELECT 1;")}
		}
		if got, err := migrations.Read(fsys); err == nil {
			t.Errorf("%s: read %v", name, got)
		}
	}
}

// bed opens handles on one empty database.
type bed struct {
	dialect migrations.Dialect
	open    func(testing.TB) *sql.DB
}

func beds(t *testing.T, f func(t *testing.T, b bed)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "ebb.db")
		f(t, bed{migrations.SQLite, func(t testing.TB) *sql.DB { return handle(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)") }})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := counterpart.Need(t, "EBB_TEST_POSTGRES")
		admin := handle(t, "pgx", server)
		name := "ebb_migrate_" + strings.ToLower(rand.Text())
		exec(t, admin, "CREATE DATABASE "+name)
		t.Cleanup(func() { exec(t, admin, "DROP DATABASE "+name+" WITH (FORCE)") })
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal("EBB_TEST_POSTGRES is not a URL")
		}
		u.Path = "/" + name
		f(t, bed{migrations.Postgres, func(t testing.TB) *sql.DB { return handle(t, "pgx", u.String()) }})
	})
}

func handle(t testing.TB, driver, dsn string) *sql.DB {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), text); err != nil {
		t.Fatal(err)
	}
}

func count(t testing.TB, db *sql.DB, text string) int {
	t.Helper()
	var n int
	if err := db.QueryRow(text).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestApply(t *testing.T) {
	t.Parallel()
	beds(t, func(t *testing.T, b bed) {
		db := b.open(t)
		all, err := migrations.Files()
		if err != nil {
			t.Fatal(err)
		}
		s, err := migrations.Status(t.Context(), db, b.dialect)
		if err != nil || len(s.Applied) != 0 || len(s.Pending) != len(all) {
			t.Fatalf("got %+v, %v", s, err)
		}
		for _, want := range []int{len(all), 0} {
			done, err := migrations.Apply(t.Context(), db, b.dialect)
			if err != nil || len(done) != want {
				t.Fatalf("applied %d, %v; want %d", len(done), err, want)
			}
		}
		s, err = migrations.Status(t.Context(), db, b.dialect)
		if err != nil || len(s.Applied) != len(all) || len(s.Pending) != 0 {
			t.Fatalf("got %+v, %v", s, err)
		}
	})
}

// Replicas that start together apply each file once.
func TestApplyTogether(t *testing.T) {
	t.Parallel()
	beds(t, func(t *testing.T, b bed) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		total := 0
		for range 8 {
			db := b.open(t)
			wg.Go(func() {
				done, err := migrations.Apply(t.Context(), db, b.dialect)
				mu.Lock()
				defer mu.Unlock()
				total += len(done)
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		all, _ := migrations.Files()
		if total != len(all) {
			t.Errorf("%d files were applied, want each of %d once", total, len(all))
		}
	})
}

func file(version int, name, text string) migrations.File {
	return migrations.File{Version: version, Name: name, SQL: text, Checksum: name}
}

func TestHalfAppliedIsRolledBack(t *testing.T) {
	t.Parallel()
	beds(t, func(t *testing.T, b bed) {
		db := b.open(t)
		one := file(1, "0001_a.sql", "CREATE TABLE a (x TEXT NOT NULL); CREATE TABLE b (x TEXT NOT NULL);")
		bad := file(2, "0002_b.sql", "CREATE TABLE c (x TEXT NOT NULL); INSERT INTO a (x) VALUES ('1'); INSERT INTO nowhere (x) VALUES ('1');")
		done, err := migrations.ApplyFiles(t.Context(), db, b.dialect, []migrations.File{one, bad})
		if err == nil || len(done) != 1 || !strings.Contains(err.Error(), "0002_b.sql was rolled back") {
			t.Fatalf("applied %d, %v", len(done), err)
		}
		if n := count(t, db, "SELECT count(*) FROM a"); n != 0 {
			t.Errorf("%d rows of the failed file are there", n)
		}
		if _, err := db.Exec("SELECT x FROM c"); err == nil {
			t.Error("a table of the failed file is there")
		}
		good := file(2, "0002_b.sql", "CREATE TABLE c (x TEXT NOT NULL);")
		if done, err := migrations.ApplyFiles(t.Context(), db, b.dialect, []migrations.File{one, good}); err != nil || len(done) != 1 {
			t.Fatalf("after the repair: applied %d, %v", len(done), err)
		}
	})
}

func TestRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	one, two := file(1, "0001_a.sql", "CREATE TABLE a (x TEXT NOT NULL);"), file(2, "0002_b.sql", "CREATE TABLE b (x TEXT NOT NULL);")
	changed := one
	changed.Checksum = "other"
	more := file(2, "0002_c.sql", "CREATE TABLE d (x TEXT NOT NULL);")
	for _, tt := range []struct {
		name  string
		spoil string
		files []migrations.File
		want  error
	}{
		{"newer", "", []migrations.File{one}, migrations.ErrNewer},
		{"changed", "", []migrations.File{changed, two}, migrations.ErrChanged},
		{"another file", "", []migrations.File{one, more}, migrations.ErrChanged},
		{"a version is gone", "DELETE FROM meta WHERE version = 1", []migrations.File{one, two}, migrations.ErrChanged},
		{"meta of somebody else", "DROP TABLE meta; CREATE TABLE meta (k TEXT NOT NULL)", []migrations.File{one, two}, migrations.ErrForeign},
	} {
		t.Run(tt.name, func(t *testing.T) {
			beds(t, func(t *testing.T, b bed) {
				db := b.open(t)
				if _, err := migrations.ApplyFiles(t.Context(), db, b.dialect, []migrations.File{one, two}); err != nil {
					t.Fatal(err)
				}
				if tt.spoil != "" {
					exec(t, db, tt.spoil)
				}
				before := count(t, db, "SELECT count(*) FROM meta")
				done, err := migrations.ApplyFiles(t.Context(), db, b.dialect, tt.files)
				if !errors.Is(err, tt.want) || len(done) != 0 || !strings.Contains(err.Error(), "nothing was changed") {
					t.Errorf("applied %d, %v; want %v", len(done), err, tt.want)
				}
				if n := count(t, db, "SELECT count(*) FROM meta"); n != before {
					t.Errorf("meta has %d rows, had %d", n, before)
				}
			})
		})
	}
}

func TestForeignDatabase(t *testing.T) {
	t.Parallel()
	beds(t, func(t *testing.T, b bed) {
		db := b.open(t)
		exec(t, db, "CREATE TABLE tasks (x TEXT NOT NULL)")
		if _, err := migrations.Apply(t.Context(), db, b.dialect); err == nil {
			t.Error("applied over a table of another application")
		}
		if _, err := db.Exec("SELECT x FROM tasks"); err != nil {
			t.Error(err)
		}
		if _, err := db.Exec("SELECT version FROM meta"); err == nil {
			t.Error("it left its own table behind")
		}
	})
}

func TestUnknownDialect(t *testing.T) {
	t.Parallel()
	if _, err := migrations.Apply(t.Context(), nil, "oracle"); err == nil {
		t.Error("applied")
	}
	if _, err := migrations.Status(t.Context(), nil, ""); err == nil {
		t.Error("status")
	}
}
