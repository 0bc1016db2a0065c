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

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/policyset"
	"ebb/scopes/policy"
)

// Config is what Open needs.
type Config struct {
	Dir      fs.FS                 // of policies; with Releases the set in force until the first one; nil = the starter policy
	Releases broker.PolicyReleases // nil = nothing is published here
	Journal  broker.Journal        // required
	Log      *slog.Logger          // required
	Now      func() time.Time      // required
}

// Source is where policies come from. A set that does not load changes nothing but the
// log and the record: the last good one stays.
type Source struct {
	cfg   Config
	live  *policy.Live
	shown atomic.Pointer[policyset.InForce]

	mu   sync.Mutex // of Look
	seen string     // what was looked at last, whether it loaded or not
}

var _ broker.PolicySource = (*Source)(nil)

// Open loads the policies. A start with broken ones is an error, because there is no last
// good set to stay with.
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

// found is a set that was looked for, and by what it is told apart from another.
type found struct {
	policyset.InForce
	set  *policy.Set
	mark string
}

// first is the set when nothing is published.
func (s *Source) first() (found, error) {
	if s.cfg.Dir != nil {
		return s.directory("")
	}
	files := []policyset.File{{Name: "starter.cedar", Text: policy.StarterSource()}}
	set := policy.Starter()
	return found{policyset.InForce{Version: set.Version(), Source: s.kind(policyset.Starter), Files: files}, set, "starter"}, nil
}

// kind is where the set is from: also the first one comes from the database where the
// next one will.
func (s *Source) kind(otherwise policyset.Source) policyset.Source {
	if s.cfg.Releases != nil {
		return policyset.Database
	}
	return otherwise
}

// Live is the set in force, for whoever decides by it.
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

// Watch looks every round, and at once when reload says so.
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

// look loads what has changed, or everything if asked to.
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
			// On the record first: nothing may be decided by a set that the record does not name.
			if err := s.record(ctx, audit.PolicyReloaded, map[string]any{"before": before, "policy": f.Version, "release": f.Number}); err != nil {
				s.seen = "" // the next look finds it again
				return
			}
		}
		s.take(f)
		s.cfg.Log.InfoContext(ctx, "policies reloaded", "policy", f.Version, "policies", f.set.Len(), "changed", f.Version != before)
	}
}

// record says what was found. That it cannot is in the log, which it has told.
func (s *Source) record(ctx context.Context, kind string, data map[string]any) error {
	raw, err := json.Marshal(data)
	if err == nil {
		err = s.cfg.Journal.Append(ctx, broker.Record{Entries: []audit.Entry{{At: s.cfg.Now(), Kind: kind, Actor: "ebb", Data: raw}}})
	}
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "a change of policy could not be recorded: the last policies stay in force", "kind", kind, "error", err)
	}
	return err
}

// problemTexts bounds what goes on the record.
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
