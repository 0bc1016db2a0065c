package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/policyset"
)

// Publish implements broker.PolicyReleases. The number is the primary key: of two
// publishers that read the same newest release, the second finds its number taken.
func (p *policyStore) Publish(ctx context.Context, r policyset.Release, e audit.Entry) error {
	files, err := filesText(r.Files)
	switch {
	case err != nil:
	case r.Number < 1 || r.Version == "" || len(r.Files) == 0 || r.Draft == "" || r.Digest == "" || r.Author == "" || r.Publisher == "" || r.At.IsZero():
		err = errors.New("a number, a version, files, a draft with its digest, an author, a publisher and a time are required")
	default:
		err = storable(r.Version, r.Before, r.Draft, r.Digest, r.Note, r.Author, r.Publisher, r.Proof)
	}
	if err == nil {
		err = p.onRecord(ctx, e, func(ctx context.Context, sess *session) error {
			newest, err := newestRelease(ctx, sess)
			if err == nil && newest != r.Number-1 {
				err = broker.ErrStale
			}
			if err == nil {
				err = dropDraft(ctx, sess, r.Draft, r.Digest)
			}
			if err != nil {
				return err
			}
			n, err := sess.exec(ctx, "INSERT INTO policy_releases ("+releaseColumns+") VALUES ("+marks(11)+") ON CONFLICT DO NOTHING",
				r.Number, r.Version, r.Before, files, r.Draft, r.Digest, r.Note, r.Author, r.Publisher, r.Proof, millis(r.At))
			if err == nil && n == 0 {
				err = broker.ErrStale
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("publishing policies: %w", err)
	}
	return nil
}

// NewestRelease implements broker.PolicyReleases.
func (p *policyStore) NewestRelease(ctx context.Context) (int64, error) {
	n, err := newestRelease(ctx, p.engine.read())
	if err != nil {
		return 0, fmt.Errorf("newest policies: %w", p.engine.explain(err))
	}
	return n, nil
}

func newestRelease(ctx context.Context, q querier) (int64, error) {
	found, err := collect(ctx, q, "SELECT number FROM policy_releases ORDER BY number DESC LIMIT 1", nil, func(row scan) (n int64, err error) { return n, row(&n) })
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0], nil
}

// Release implements broker.PolicyReleases.
func (p *policyStore) Release(ctx context.Context, number int64) (policyset.Release, error) {
	found, err := p.releases(ctx, releaseColumns, " WHERE number = ?", number)
	return single(found, err, "published policies", broker.ErrNotFound)
}

// Releases implements broker.PolicyReleases.
func (p *policyStore) Releases(ctx context.Context, before int64, n int) ([]policyset.Release, error) {
	if n < 1 || n > maxLimit {
		return nil, fmt.Errorf("published policies: the limit is %d: ask for 1 to %d", n, maxLimit)
	}
	if before == 0 {
		before = math.MaxInt64
	}
	found, err := p.releases(ctx, "number, version, before, '[]', draft, digest, note, author, publisher, proof, at", " WHERE number < ? ORDER BY number DESC LIMIT ?", before, n)
	if err != nil {
		return nil, fmt.Errorf("published policies: %w", err)
	}
	return found, nil
}

func (p *policyStore) releases(ctx context.Context, columns, rest string, args ...any) ([]policyset.Release, error) {
	found, err := collect(ctx, p.engine.read(), "SELECT "+columns+" FROM policy_releases"+rest, args, func(row scan) (policyset.Release, error) {
		var r policyset.Release
		var files string
		var at int64
		if err := row(&r.Number, &r.Version, &r.Before, &files, &r.Draft, &r.Digest, &r.Note, &r.Author, &r.Publisher, &r.Proof, &at); err != nil {
			return r, err
		}
		r.At = fromMillis(at)
		return r, json.Unmarshal([]byte(files), &r.Files)
	})
	if err != nil {
		return nil, p.engine.explain(err)
	}
	return found, nil
}
