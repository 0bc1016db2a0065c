package verify

import (
	"context"
	"log/slog"
	"time"
)

// Event is one line of the revocation feed.
type Event struct {
	TaskID  string    `json:"task_id"`
	LeaseID string    `json:"lease_id"` // "" = the whole task
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // it may be forgotten after this
}

// Page is one answer of the feed.
type Page struct {
	Events []Event
	Cursor string        // for the next call
	Full   bool          // there may be more at once
	MaxAge time.Duration // the staleness that ebb allows at most; 0 = not said
}

// Feed asks for the events after cursor ("" = from the oldest kept), waiting up
// to wait for the first. It returns ErrCursor when the cursor is not known any
// more.
type Feed interface {
	Next(ctx context.Context, cursor string, wait time.Duration) (Page, error)
}

// Run follows the feed and the keys until ctx is done, and returns its error.
// Requests are answered 503 until the feed was read once.
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

// Ready reports why requests are answered 503 at the moment; nil when they are
// not.
func (v *Verifier) Ready() error {
	if _, known := v.revoked.judge(&Token{}, v.cfg.Now(), v.cfg.MaxStaleness); !known {
		return doubt("The revocation feed of the issuer has not been read lately.", nil)
	}
	if !v.keys.loaded() {
		return doubt("The keys of the issuer are not known yet.", nil)
	}
	return nil
}

// follow is the loop of the feed. Knowledge is as old as the question, not as
// the answer: two waits and the way there and back must fit into MaxStaleness.
func (v *Verifier) follow(ctx context.Context) {
	longest := v.cfg.MaxStaleness / 3
	cursor, pause := "", time.Duration(0)
	wait := time.Duration(0) // the first answer is wanted at once
	for ctx.Err() == nil {
		asked := v.cfg.Now()
		page, err := v.next(ctx, cursor, wait)
		if err == nil {
			v.heard(page.Events)
			cursor, pause = page.Cursor, 0
			if len(page.Events) == 0 && v.cfg.Now().Sub(asked) < wait/2 {
				pause = wait / 2 // a feed that does not wait must not be asked in a busy loop
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
				cursor = "" // what is known stays; the rest is read again
			}
		}
		sleep(ctx, pause)
	}
}

func (v *Verifier) next(ctx context.Context, cursor string, wait time.Duration) (Page, error) {
	// A connection that died silently must not outlast what is allowed to be stale.
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

// heard takes in events of the feed. A clock that is ahead for a moment makes none of
// them over.
func (v *Verifier) heard(events []Event) { v.revoked.add(events, v.clock.Read().Sure) }
