package main

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"time"
)

// ownEbb starts an ebb for this run if none is named and none of this user is
// running on this machine. It uses the configuration and the data directory of
// `ebb serve`, so that a later ebb completes revocations that are still pending
// when the run ends.
func (c runCommand) ownEbb(ctx context.Context) (end func() error, err error) {
	none := func() error { return nil }
	if c.url != "" || c.socket != "" || c.answers(ctx) {
		return none, nil
	}
	cfg, err := c.checkConfig()
	if err != nil {
		return nil, err
	}
	// It serves this run only, wherever the configured ebb would listen.
	cfg.Listen, cfg.PublicURL, cfg.ListenUnix, cfg.TLS.Cert, cfg.TLS.Key = "127.0.0.1:0", "", "", "", ""
	n, err := assemble(ctx, settings{Config: cfg, Log: slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return nil, err
	}
	c.url = n.url
	c.sayf("ebb: no ebb is running on this machine: this run starts its own, with its data in %s\n", cfg.DataDir)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- n.serve(serving, nil) }()
	return func() error {
		stop()
		return <-done
	}, nil
}

// answers reports whether the ebb that uses the data directory accepts
// connections.
func (c runCommand) answers(ctx context.Context) bool {
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
