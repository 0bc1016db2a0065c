package main

import (
	"context"
	"net/url"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"ebb/broker"
	"ebb/broker/memstore"
	"ebb/broker/sqlstore"
	"ebb/cmd/ebb/internal/config"
)

// journalConfig is where the journal is, password included.
func journalConfig(c config.Config) sqlstore.Config {
	if c.Database == "" {
		return sqlstore.Config{URL: "sqlite://" + filepath.Join(c.DataDir, databaseFile)}
	}
	u, err := url.Parse(c.Database)
	if err != nil || c.DatabasePassword().Empty() {
		return sqlstore.Config{URL: c.Database}
	}
	u.User = url.UserPassword(u.User.Username(), c.DatabasePassword().Reveal())
	return sqlstore.Config{URL: u.String()}
}

func (n *node) openJournal(ctx context.Context, c config.Config, reg prometheus.Registerer) (*sqlstore.Store, error) {
	sc := journalConfig(c)
	sc.Logger, sc.Registerer = n.log, reg
	s, err := sqlstore.Open(ctx, sc)
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, s.Close)
	return s, nil
}

func (n *node) openLedger(ctx context.Context, c config.Config, reg prometheus.Registerer) (broker.Ledger, error) {
	if c.Embedded() {
		if c.Database != "" {
			n.log.WarnContext(ctx, "the ledger is in this process: run one ebb only, or set redis.addrs")
		}
		l := memstore.New(memstore.Config{})
		n.closers = append(n.closers, l.Close)
		return l, nil
	}
	_ = reg
	return nil, nil
}
