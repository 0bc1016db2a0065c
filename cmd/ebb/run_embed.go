package main

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"time"
)

// ownEbb starts an ebb for one run where nobody has named one and none of this user is
// running here: with the configuration and the data directory that `ebb serve` would have, so
// that what it still owes at its end the next one settles.
func (c *cli) ownEbb(ctx context.Context) (end func() error, err error) {
	none := func() error { return nil }
	if c.url != "" || c.socket != "" || c.answers(ctx) {
		return none, nil
	}
	cfg, err := c.checkConfig()
	if err != nil {
		return nil, err
	}
	// It is for this run alone, wherever the configured one would be.
	cfg.Listen, cfg.PublicURL, cfg.ListenUnix, cfg.TLS.Cert, cfg.TLS.Key = "127.0.0.1:0", "", "", "", ""
	n, err := wire(ctx, settings{Config: cfg, Log: slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return nil, err
	}
	c.url = n.url
	c.sayf("ebb: none is running here: this run has its own, with the data in %s\n", cfg.DataDir)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- n.serve(serving, nil) }()
	return func() error {
		stop()
		return <-done
	}, nil
}

// answers reports whether the ebb that last used the data directory is there.
func (c *cli) answers(ctx context.Context) bool {
	text, running := runningURL(c.dataDir())
	if !running {
		return false
	}
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme
	}
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
