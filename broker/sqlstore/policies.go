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

// policyStore stores policy drafts and releases.
type policyStore struct {
	com    *committer
	engine *engine
}

var _ broker.PolicyStore = (*policyStore)(nil)

const (
	draftColumns   = "id, digest, author, also, note, base, after, version, files, created_at, changed_at"
	releaseColumns = "number, version, before, files, draft, digest, note, author, publisher, proof, at"
)

// onRecord runs work as one unit with an audit entry.
func (p *policyStore) onRecord(ctx context.Context, e audit.Entry, work func(context.Context, *session) error) error {
	entries, err := draft([]audit.Entry{e})
	if err != nil {
		return err
	}
	return p.com.do(ctx, &unit{entries: entries, work: func(ctx context.Context, sess *session, _ *unit) error { return work(ctx, sess) }})
}

// PutDraft implements broker.PolicyDrafts.
func (p *policyStore) PutDraft(ctx context.Context, d policyset.Draft, was string, e audit.Entry) error {
	args, err := draftArgs(d)
	if err == nil {
		err = p.onRecord(ctx, e, func(ctx context.Context, sess *session) error {
			if was == "" {
				return addDraft(ctx, sess, args)
			}
			n, err := sess.exec(ctx, "UPDATE policy_drafts SET digest = ?, author = ?, also = ?, note = ?, base = ?, after = ?, version = ?, files = ?, changed_at = ? WHERE id = ? AND digest = ?",
				args[1], args[2], args[3], args[4], args[5], args[6], args[7], args[8], args[10], d.ID, was)
			if err != nil || n > 0 {
				return err
			}
			return noDraft(ctx, sess, d.ID)
		})
	}
	if err != nil {
		return fmt.Errorf("keeping a policy draft: %w", err)
	}
	return nil
}

func addDraft(ctx context.Context, sess *session, args []any) error {
	full, err := exists(ctx, sess, "SELECT 1 FROM policy_drafts LIMIT 1 OFFSET ?", policyset.MaxDrafts-1)
	if err == nil && full {
		err = broker.ErrCap
	}
	if err != nil {
		return err
	}
	n, err := sess.exec(ctx, "INSERT INTO policy_drafts ("+draftColumns+") VALUES ("+marks(len(args))+") ON CONFLICT DO NOTHING", args...)
	if err == nil && n == 0 {
		err = broker.ErrExists
	}
	return err
}

// noDraft returns why no draft has that digest: ErrStale or ErrNotFound.
func noDraft(ctx context.Context, sess *session, id string) error {
	there, err := exists(ctx, sess, "SELECT 1 FROM policy_drafts WHERE id = ?", id)
	switch {
	case err != nil:
		return err
	case there:
		return broker.ErrStale
	}
	return broker.ErrNotFound
}

func draftArgs(d policyset.Draft) ([]any, error) {
	if d.ID == "" || d.Author == "" || d.Version == "" || len(d.Files) == 0 || d.CreatedAt.IsZero() || d.ChangedAt.IsZero() {
		return nil, errors.New("an id, an author, a version, files and times are required")
	}
	files, err := filesText(d.Files)
	if err != nil {
		return nil, err
	}
	also, err := json.Marshal(d.Also)
	if err != nil {
		return nil, err
	}
	if err := storable(append([]string{d.ID, d.Author, d.Note, d.Base, d.Version}, d.Also...)...); err != nil {
		return nil, err
	}
	return []any{d.ID, d.Digest(), d.Author, string(also), d.Note, d.Base, d.After, d.Version, files, millis(d.CreatedAt), millis(d.ChangedAt)}, nil
}

// filesText returns files in their stored form: JSON, which is safe for any content.
func filesText(files []policyset.File) (string, error) {
	for _, f := range files {
		if err := storable(f.Name, f.Text); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(files)
	return string(b), err
}

// DropDraft implements broker.PolicyDrafts.
func (p *policyStore) DropDraft(ctx context.Context, id, digest string, e audit.Entry) error {
	err := p.onRecord(ctx, e, func(ctx context.Context, sess *session) error { return dropDraft(ctx, sess, id, digest) })
	if err != nil {
		return fmt.Errorf("dropping a policy draft: %w", err)
	}
	return nil
}

func dropDraft(ctx context.Context, sess *session, id, digest string) error {
	n, err := sess.exec(ctx, "DELETE FROM policy_drafts WHERE id = ? AND digest = ?", id, digest)
	if err != nil || n > 0 {
		return err
	}
	return noDraft(ctx, sess, id)
}

// Draft implements broker.PolicyDrafts.
func (p *policyStore) Draft(ctx context.Context, id string) (policyset.Draft, error) {
	found, err := p.drafts(ctx, " WHERE id = ?", id)
	return single(found, err, "policy draft", broker.ErrNotFound)
}

// Drafts implements broker.PolicyDrafts.
func (p *policyStore) Drafts(ctx context.Context) ([]policyset.Draft, error) {
	found, err := p.drafts(ctx, " ORDER BY changed_at DESC, id DESC")
	if err != nil {
		return nil, fmt.Errorf("policy drafts: %w", err)
	}
	return found, nil
}

func (p *policyStore) drafts(ctx context.Context, rest string, args ...any) ([]policyset.Draft, error) {
	found, err := collect(ctx, p.engine.read(), "SELECT "+draftColumns+" FROM policy_drafts"+rest, args, func(row scan) (policyset.Draft, error) {
		var d policyset.Draft
		var digest, also, files string
		var created, changed int64
		if err := row(&d.ID, &digest, &d.Author, &also, &d.Note, &d.Base, &d.After, &d.Version, &files, &created, &changed); err != nil {
			return d, err
		}
		d.CreatedAt, d.ChangedAt = fromMillis(created), fromMillis(changed)
		return d, errors.Join(json.Unmarshal([]byte(also), &d.Also), json.Unmarshal([]byte(files), &d.Files))
	})
	if err != nil {
		return nil, p.engine.explain(err)
	}
	return found, nil
}

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
