package policysource

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/ebb-broker/ebb/broker/policyset"
)

// errAway is wrapped when the database does not answer. The log then reports no policy problem:
// without the database ebb issues nothing, and the policies are read again when it answers.
var errAway = errors.New("the database does not answer")

// newest returns the newest release if its number differs from that of the previous look, even if
// that look failed. Otherwise it returns an empty result.
func (s *Source) newest(ctx context.Context, asked bool) (found, error) {
	n, err := s.cfg.Releases.NewestRelease(ctx)
	if err != nil {
		return found{}, fmt.Errorf("%w: %w", errAway, err)
	}
	if n == 0 || release(n) == s.seen && !asked {
		return found{}, nil
	}
	f, err := s.release(ctx, n)
	if !errors.Is(err, errAway) {
		s.seen = release(n)
	}
	return f, err
}

// release reads the release with this number and compiles it.
func (s *Source) release(ctx context.Context, n int64) (found, error) {
	r, err := s.cfg.Releases.Release(ctx, n)
	if err != nil {
		return found{}, fmt.Errorf("%w: %w", errAway, err)
	}
	set, err := policyset.Load(r.Files)
	if err != nil {
		return found{}, fmt.Errorf("release %d: %w", n, err)
	}
	return found{policyset.InForce{Version: set.Version(), Source: policyset.Database, Number: n, Author: r.Author, By: r.Publisher, Files: r.Files}, set, release(n)}, nil
}

func release(n int64) string { return "release " + strconv.FormatInt(n, 10) }
