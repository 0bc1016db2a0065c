package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Say runs a statement on the connection that writes, for tests that set limits.
func (s *Store) Say(ctx context.Context, text string) error {
	return s.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, _ *unit) error {
		rows, err := sess.conn.QueryContext(ctx, text)
		if err != nil {
			return err
		}
		for rows.Next() { // a PRAGMA takes effect when its row is read
		}
		return errors.Join(rows.Err(), rows.Close())
	}})
}

// Hold keeps the committer busy until release is closed; held is closed when it is.
func (s *Store) Hold(held, release chan struct{}) error {
	return s.com.do(context.Background(), &unit{work: func(context.Context, *session, *unit) error {
		close(held)
		<-release
		return nil
	}})
}

// OpenLimited opens a SQLite store whose file may not grow beyond so many pages,
// as on a full disk.
func OpenLimited(ctx context.Context, cfg Config, pages int) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	if s.engine, err = openEngine(ctx, cfg, true); err != nil {
		return nil, err
	}
	_ = s.engine.writer.Close()
	if s.engine.writer, err = handle(strings.TrimPrefix(cfg.URL, "sqlite://"), fmt.Sprintf("&_pragma=max_page_count(%d)", pages), 1); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}
