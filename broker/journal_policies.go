package broker

import (
	"context"

	"ebb/broker/audit"
	"ebb/broker/policyset"
)

// PolicyDesk keeps policy sets: those that people propose, and those that were
// published. Replicas share it. Entries are written with what they are about, or neither
// is.
type PolicyDesk interface {
	PolicyDrafts
	PolicyReleases
}

// PolicyDrafts are sets that people propose.
type PolicyDrafts interface {
	// PutDraft keeps d: a new one when was is "" (ErrCap when there are
	// policyset.MaxDrafts, ErrExists for a known id), else in place of the one with this
	// id and digest (ErrNotFound, ErrStale).
	PutDraft(ctx context.Context, d policyset.Draft, was string, e audit.Entry) error
	// DropDraft forgets the one with this id and digest: ErrNotFound, ErrStale.
	DropDraft(ctx context.Context, id, digest string, e audit.Entry) error
	// Draft returns one: ErrNotFound.
	Draft(ctx context.Context, id string) (policyset.Draft, error)
	// Drafts returns all, the one that was changed last first.
	Drafts(ctx context.Context) ([]policyset.Draft, error)
}

// PolicyReleases are sets that were published, numbered 1, 2, 3 ...
type PolicyReleases interface {
	// Publish keeps r as the next one, and forgets the draft it was. Of those that
	// publish at the same time one wins. ErrNotFound without that draft; ErrStale when its
	// digest is another, or the newest release is not that before r.Number.
	Publish(ctx context.Context, r policyset.Release, e audit.Entry) error
	// NewestRelease is the number of the newest, 0 when there is none.
	NewestRelease(ctx context.Context) (int64, error)
	// Release returns one: ErrNotFound.
	Release(ctx context.Context, number int64) (policyset.Release, error)
	// Releases returns up to n (1..1000) of those before a number, 0 = from the newest, newest
	// first, without their files.
	Releases(ctx context.Context, before int64, n int) ([]policyset.Release, error)
}
