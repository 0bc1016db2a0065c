package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/client"
)

// The command prints at once the waiting request, its approvers and the time left.
func TestSayAsked(t *testing.T) {
	t.Parallel()
	id := broker.NewID(broker.RequestPrefix)
	for name, c := range map[string]struct {
		p    client.Pending
		want []string
	}{
		"all": {
			client.Pending{RequestID: id, Page: "https://ebb.example/requests/" + id, Groups: []string{"ops", "leads"}, ExpiresIn: 29*time.Minute + 59*time.Second},
			[]string{"a:b:write", id + ", match code " + broker.MatchCode(id), "members of ops, leads", "https://ebb.example/requests/" + id, "29m59s"},
		},
		"on loopback":     {client.Pending{RequestID: id, ExpiresIn: time.Minute}, []string{"`ebb console` prints a link; or ebb requests show " + id}},
		"an older server": {client.Pending{}, []string{"ebb requests list"}},
		"hostile groups":  {client.Pending{RequestID: id, Groups: []string{"a\x1b[2J\n", "\u202eb"}}, []string{"a[U+001B][2J[U+000A]"}},
	} {
		var b bytes.Buffer
		(&cli{stderr: &b}).sayAsked("a:b:write", c.p)
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: got\n%s\nwant %q in it", name, b.String(), want)
			}
		}
		if strings.ContainsAny(b.String(), "\x1b\r\u202e") {
			t.Errorf("%s: got %q", name, b.String())
		}
	}
}

// One updated line on a terminal, one line for each tick elsewhere.
func TestCountDown(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for terminal, want := range map[bool]string{
		false: "ebb: waiting for an approval, 2m0s left\nebb: waiting for an approval, 0s left\n",
		true:  "\r\x1b[Kebb: waiting for an approval, 2m0s left\r\x1b[Kebb: waiting for an approval, 0s left\r\x1b[K",
	} {
		var b bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ticks, done := make(chan time.Time), make(chan struct{})
		go func() { countDown(ctx, &b, terminal, at.Add(2*time.Minute), ticks); close(done) }()
		ticks <- at
		ticks <- at.Add(time.Hour)
		cancel()
		<-done
		if b.String() != want {
			t.Errorf("terminal %v: got %q, want %q", terminal, b.String(), want)
		}
	}
}

// An interrupt names the request and the command that finds it again, without a secret, and is pending.
func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := &cli{stderr: &b, keyFile: "it's.key"}
	flags := tokenFlags{ticket: "ebb_tkt_secret", request: client.TokenRequest{Scope: "a:b:write", Tool: "git", Wait: true}}
	again := tokenCommands{c}.again(&flags)
	if want := `ebb token --wait --scope 'a:b:write' --key 'it'\''s.key' --tool 'git'`; again != want {
		t.Errorf("got %s, want %s", again, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := c.awaiting("a:b:write")
	w.told(client.Pending{RequestID: "req_1", ExpiresIn: time.Hour})
	other := errors.New("other")
	if err := w.done(ctx, again, other); !errors.Is(err, other) {
		t.Errorf("not interrupted: %v", err)
	}
	cancel()
	err := w.done(ctx, again, ctx.Err())
	f, is := errors.AsType[*failure](err)
	if !is || f.Code != exitPending || !strings.Contains(f.Text, "req_1") || f.Next != again {
		t.Errorf("got %+v", err)
	}
	if err := c.awaiting("a:b:read").done(ctx, again, ctx.Err()); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted before the request waited: %v", err)
	}
}
