package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/policyset"
)

var _ broker.PolicyDesk = (*Store)(nil)

const (
	draftColumns   = "id, digest, author, also, note, base, after, version, files, created_at, changed_at"
	releaseColumns = "number, version, before, files, draft, digest, note, author, publisher, proof, at"
)

// onRecord runs work as one unit with an entry.
func (s *Store) onRecord(ctx context.Context, e audit.Entry, work func(context.Context, *session) error) error {
	entries, err := draft([]audit.Entry{e})
	if err != nil {
		return err
	}
	return s.com.do(ctx, &unit{entries: entries, work: func(ctx context.Context, sess *session, _ *unit) error { return work(ctx, sess) }})
}

// PutDraft implements broker.PolicyDrafts.
func (s *Store) PutDraft(ctx context.Context, d policyset.Draft, was string, e audit.Entry) error {
	args, err := draftArgs(d)
	if err == nil {
		err = s.onRecord(ctx, e, func(ctx context.Context, sess *session) error {
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

// noDraft is why a draft with that digest was not there.
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
		return nil, errors.New("it needs an id, an author, a version, files and times")
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

// filesText is files as they are stored: JSON, so that what they hold cannot offend.
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
func (s *Store) DropDraft(ctx context.Context, id, digest string, e audit.Entry) error {
	err := s.onRecord(ctx, e, func(ctx context.Context, sess *session) error { return dropDraft(ctx, sess, id, digest) })
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
func (s *Store) Draft(ctx context.Context, id string) (policyset.Draft, error) {
	found, err := s.drafts(ctx, " WHERE id = ?", id)
	return single(found, err, "policy draft", broker.ErrNotFound)
}

// Drafts implements broker.PolicyDrafts.
func (s *Store) Drafts(ctx context.Context) ([]policyset.Draft, error) {
	found, err := s.drafts(ctx, " ORDER BY changed_at DESC, id DESC")
	if err != nil {
		return nil, fmt.Errorf("policy drafts: %w", err)
	}
	return found, nil
}

func (s *Store) drafts(ctx context.Context, rest string, args ...any) ([]policyset.Draft, error) {
	found, err := collect(ctx, s.engine.read(), "SELECT "+draftColumns+" FROM policy_drafts"+rest, args, func(row scan) (policyset.Draft, error) {
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
		return nil, s.engine.explain(err)
	}
	return found, nil
}
