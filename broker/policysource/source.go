package policysource

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/policyadmin"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Config holds the arguments of Open.
type Config struct {
	Dir      fs.FS                 // directory of policies; with Releases, in force until the first one; nil = the starter policy
	Releases broker.PolicyReleases // nil = policies are not published
	Store    broker.Store          // required
	Log      *slog.Logger          // required
	Now      func() time.Time      // required
}

// Source loads policies from their origin. If a new set does not compile, the last good set stays
// in force, and the log and the audit log name the problems.
type Source struct {
	cfg   Config
	live  *policy.Live
	shown atomic.Pointer[policyset.InForce]

	mu   sync.Mutex // of Look
	seen string     // version of the last look, whether it loaded or not
}

var _ policyadmin.PolicySource = (*Source)(nil)

// Open loads the policies. It fails if they do not compile, because at a start there is no last
// good set.
func Open(ctx context.Context, c Config) (*Source, error) {
	s := &Source{cfg: c, live: policy.NewLive(nil)}
	found, err := s.first()
	if err != nil {
		return nil, err
	}
	if c.Releases != nil {
		n, err := c.Releases.NewestRelease(ctx)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			if found, err = s.release(ctx, n); err != nil {
				return nil, err
			}
		}
	}
	s.take(found)
	s.seen = found.mark
	return s, nil
}

// found is a set that was read, with the version by which the next look recognizes it.
type found struct {
	policyset.InForce
	set  *policy.Set
	mark string
}

// first returns the set to use when no release is published.
func (s *Source) first() (found, error) {
	if s.cfg.Dir != nil {
		return s.directory("")
	}
	files := []policyset.File{{Name: "starter.cedar", Text: policy.StarterSource()}}
	set := policy.Starter()
	return found{policyset.InForce{Version: set.Version(), Source: s.kind(policyset.Starter), Files: files}, set, "starter"}, nil
}

// kind returns the origin of the set. With published policies, the built-in first set counts as
// published too, because its successor comes from the database.
func (s *Source) kind(otherwise policyset.Source) policyset.Source {
	if s.cfg.Releases != nil {
		return policyset.Database
	}
	return otherwise
}

// Live returns the set in force. It follows later changes.
func (s *Source) Live() *policy.Live { return s.live }

// InForce implements broker.PolicySource.
func (s *Source) InForce() policyset.InForce { return *s.shown.Load() }

func (s *Source) take(f found) {
	f.Since = s.cfg.Now().UTC()
	if before := s.shown.Load(); before != nil && before.Version == f.Version && before.Number == f.Number {
		f.Since = before.Since // layout and comments do not decide
	}
	s.live.Replace(f.set)
	s.shown.Store(&f.InForce)
}

// Watch calls Look every round, and at once for each value from reload.
func (s *Source) Watch(ctx context.Context, round time.Duration, reload <-chan struct{}) error {
	t := time.NewTicker(round)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			s.look(ctx, false)
		case <-reload:
			s.look(ctx, true)
		}
	}
}

// Look implements broker.PolicySource.
func (s *Source) Look(ctx context.Context) { s.look(ctx, false) }

// look loads the set if its origin has changed. If asked is set, it loads the set in any case.
func (s *Source) look(ctx context.Context, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var f found
	var err error
	switch {
	case s.cfg.Releases != nil:
		f, err = s.newest(ctx, asked)
	case s.cfg.Dir != nil:
		f, err = s.changed(asked)
	case asked:
		s.cfg.Log.InfoContext(ctx, "the built-in starter policy is in force; there is nothing to reload")
	}
	before := s.live.Current().Version()
	switch {
	case errors.Is(err, errAway):
		s.cfg.Log.WarnContext(ctx, "the database did not say which policies are published: the last good ones stay in force", "policy", before, "error", err)
	case err != nil:
		s.cfg.Log.ErrorContext(ctx, "POLICIES NOT RELOADED: the last good ones stay in force", "policy", before, "error", err)
		_ = s.record(ctx, audit.PolicyRejected, map[string]any{"in_force": before, "problems": problemTexts(err)})
	case f.set != nil:
		if f.Version != before {
			// Write the audit log first: no decision may use a set that the audit log does not
			// name.
			if err := s.record(ctx, audit.PolicyReloaded, map[string]any{"before": before, "policy": f.Version, "release": f.Number}); err != nil {
				s.seen = "" // the next look finds it again
				return
			}
		}
		s.take(f)
		s.cfg.Log.InfoContext(ctx, "policies reloaded", "policy", f.Version, "policies", f.set.Len(), "changed", f.Version != before)
	}
}

// record writes an audit entry. It logs a failure itself.
func (s *Source) record(ctx context.Context, kind string, data map[string]any) error {
	raw, err := json.Marshal(data)
	if err == nil {
		err = s.cfg.Store.Append(ctx, broker.Record{Entries: []audit.Entry{{At: s.cfg.Now(), Kind: kind, Actor: "ebb", Data: raw}}})
	}
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "a change of policy could not be recorded: the last policies stay in force", "kind", kind, "error", err)
	}
	return err
}

// problemTexts returns the problems in err, bounded for an audit entry.
func problemTexts(err error) []string {
	problems := policyset.Problems(err)
	if len(problems) == 0 {
		return []string{"the policies could not be read"}
	}
	var texts []string
	for _, p := range problems[:min(len(problems), 20)] {
		texts = append(texts, p.String())
	}
	return texts
}
