package sqlstore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/sqlstore"
)

// A start finds an overwritten page anywhere in the file. The store does not open, names
// the remedy, and changes nothing. If the check runs out of time, the store opens and
// logs a warning.
//
//ebb:invariant I6 ebb does not open a SQLite file in which its integrity check finds damage, wherever the damage is
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ebb.db")
	s := mustOpenOne(t, open(t, "sqlite://"+path))
	for range 200 {
		if err := s.Append(t.Context(), mint("tsk_1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for at := page; at < len(whole); at += 7 * page {
		spoilt := bytes.Clone(whole)
		copy(spoilt[at:at+page], bytes.Repeat([]byte{0xa5}, page))
		file := filepath.Join(t.TempDir(), "ebb.db")
		if err := os.WriteFile(file, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: "sqlite://" + file})
		if reason, ok := errors.AsType[broker.Reason](err); !ok || !strings.Contains(string(reason), "restore it from a backup") {
			t.Errorf("page %d of %d is damaged: %v", at/page+1, len(whole)/page, err)
		}
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, spoilt) {
			t.Errorf("page %d: the file was changed", at/page+1)
		}
	}
	var log bytes.Buffer
	s, err = sqlstore.Open(t.Context(), sqlstore.Config{URL: "sqlite://" + path, Logger: slog.New(slog.NewTextHandler(&log, nil))}.Hastily())
	if err != nil || !strings.Contains(log.String(), "not finished in time") {
		t.Fatalf("without time for the check: %v; log %q", err, log.String())
	}
	_ = s.Close()
}
