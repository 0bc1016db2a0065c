package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/migrations"
)

// Migrate applies pending migrations and returns their names.
func Migrate(ctx context.Context, cfg Config) ([]migrations.File, error) {
	_, eng, err := connect(ctx, cfg, true)
	if err != nil {
		return nil, err
	}
	done, err := migrations.Apply(ctx, eng.writer, eng.dialect)
	return done, errors.Join(eng.explain(err), eng.close())
}

// MigrationStatus reports the applied and the pending migrations. It changes nothing.
func MigrationStatus(ctx context.Context, cfg Config) (migrations.State, error) {
	_, eng, err := connect(ctx, cfg, false)
	if err != nil {
		return migrations.State{}, err
	}
	if eng == nil { // no file yet
		files, err := migrations.Files()
		return migrations.State{Pending: files}, err
	}
	st, err := migrations.Status(ctx, eng.writer, eng.dialect)
	return st, errors.Join(eng.explain(err), eng.close())
}

// migrate applies pending migrations, or refuses them if Config.Manual is set.
func (s *Store) migrate(ctx context.Context) error {
	if s.cfg.Manual {
		st, err := migrations.Status(ctx, s.engine.writer, s.engine.dialect)
		if err != nil {
			return err
		}
		if len(st.Pending) > 0 {
			return fmt.Errorf("database: %d migrations are pending, the first is %s: run `ebb migrate`", len(st.Pending), st.Pending[0].Name)
		}
		return nil
	}
	done, err := migrations.Apply(ctx, s.engine.writer, s.engine.dialect)
	for _, f := range done {
		s.cfg.Logger.InfoContext(ctx, "database schema changed", "migration", f.Name)
	}
	return err
}
