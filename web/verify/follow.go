package verify

import (
	"context"
	"log/slog"
	"time"
)

// Event is one event of the revocation feed.
type Event struct {
	TaskID  string    `json:"task_id"`
	LeaseID string    `json:"lease_id"` // "" = the whole task
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // the event may be dropped after this time
}

// Page is one response of the feed.
type Page struct {
	Events []Event
	Cursor string        // for the next call
	Full   bool          // there may be more events now
	MaxAge time.Duration // ebb's limit for the staleness; 0 = none
}

// Feed returns the events after cursor ("" = from the oldest kept). It waits up
// to wait for the first event. It returns ErrCursor when the cursor is not
// known any more.
type Feed interface {
	Next(ctx context.Context, cursor string, wait time.Duration) (Page, error)
}

// Run follows the feed and the keys until ctx is done, and returns the error of
// ctx. Until it has read the feed once, requests are answered with 503.
func (v *Verifier) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.followKeys(ctx)
	}()
	v.follow(ctx)
	<-done
	return ctx.Err()
}

// Ready returns the reason why requests are answered with 503 at the moment, or
// nil when they are not.
func (v *Verifier) Ready() error {
	if _, known := v.revoked.judge(&Token{}, v.cfg.Now(), v.cfg.MaxStaleness); !known {
		return doubt("The revocation feed of the issuer has not been read within the allowed staleness.", nil)
	}
	if !v.keys.loaded() {
		return doubt("The keys of the issuer are not known yet.", nil)
	}
	return nil
}

// follow is the loop that reads the feed. The age of the revoked set counts
// from the request, not from the response. Therefore two waits and a round trip
// must fit into MaxStaleness.
func (v *Verifier) follow(ctx context.Context) {
	longest := v.cfg.MaxStaleness / 3
	cursor, pause := "", time.Duration(0)
	wait := time.Duration(0) // the first response must come at once
	for ctx.Err() == nil {
		asked := v.cfg.Now()
		page, err := v.next(ctx, cursor, wait)
		if err == nil {
			v.heard(page.Events)
			cursor, pause = page.Cursor, 0
			if len(page.Events) == 0 && v.cfg.Now().Sub(asked) < wait/2 {
				pause = wait / 2 // avoids a busy loop with a feed that does not wait
			}
			wait = 0
			if page.Full {
				continue
			}
			v.revoked.complete(asked, page.MaxAge)
			if wait = longest; page.MaxAge > 0 {
				wait = min(longest, page.MaxAge/3)
			}
		} else if ctx.Err() == nil {
			v.cfg.Log.WarnContext(ctx, "revocation feed", slog.Any("error", err))
			pause = min(max(2*pause, 250*time.Millisecond), longest)
			wait = 0
			if isCursor(err) {
				cursor = "" // the revoked set stays; the feed is read from its start
			}
		}
		sleep(ctx, pause)
	}
}

func (v *Verifier) next(ctx context.Context, cursor string, wait time.Duration) (Page, error) {
	// A connection that is dead without notice must not outlast MaxStaleness.
	ctx, cancel := context.WithTimeout(ctx, wait+v.cfg.MaxStaleness/2)
	defer cancel()
	return v.cfg.Feed.Next(ctx, cursor, wait)
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// heard adds events of the feed. It uses the reliable lower bound of the clock,
// so that a clock that jumps ahead does not expire events.
func (v *Verifier) heard(events []Event) { v.revoked.add(events, v.clock.Read().Sure) }
