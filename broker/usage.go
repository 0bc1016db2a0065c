package broker

import (
	"context"
	"strings"
	"time"
)

// UsageRows is how many rows a Usage has at most.
const UsageRows = 1000

// usageSpan is what a Usage looks back on that names no beginning.
const usageSpan = 30 * 24 * time.Hour

// UsageBy is what credentials are put together by.
type UsageBy string

// What credentials are put together by.
const (
	UsageByScope UsageBy = "scope" // provider, scopes and tool
	UsageByOwner UsageBy = "owner"
	UsageByTask  UsageBy = "task" // and its owner
)

// UsageFilter is a window that ends now.
type UsageFilter struct {
	From, Now time.Time // [From, Now]; required, From before Now
	By        UsageBy
}

// Usage sets what was issued beside what was used of it: credentials that were issued since
// From and are delivered by egress, which has each request and session on the record
// before it leaves. What a sandbox does with what is in its hand, ebb does not know, but for
// the SSH connections that egress carried by it.
type Usage struct {
	From time.Time `json:"from"` // later than asked for when there are more than FigureRows credentials
	Cut  bool      `json:"cut"`  // it is
	// UsesFrom is since when Uses and LastUsed are summed up: From, or later when there are more
	// than FigureRows uses. Whether a credential was used at all does not depend on it.
	UsesFrom  time.Time    `json:"uses_from"`
	At        time.Time    `json:"at"` // when it was counted
	By        UsageBy      `json:"by"`
	HandedOut int          `json:"handed_out"` // other credentials since From
	Carried   int          `json:"carried"`    // of them: egress has carried an SSH connection by it
	Items     []GrantUsage `json:"items"`      // those with the most unused first, then with the most issued
	More      bool         `json:"more"`       // there are more than Items
}

// GrantUsage is one row of a Usage. What is not used and not over can still be used.
type GrantUsage struct {
	Provider string    `json:"provider,omitempty"`
	Scope    string    `json:"scope,omitempty"` // separated by spaces
	Tool     string    `json:"tool,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	TaskID   string    `json:"task_id,omitempty"`
	Issued   int       `json:"issued"`             // credentials
	Used     int       `json:"used"`               // of them: at least once
	Unused   int       `json:"unused"`             // of them: over, and never used
	Uses     int       `json:"uses"`               // requests and sessions that were let through with them since UsesFrom
	LastUsed time.Time `json:"last_used,omitzero"` // zero = not since UsesFrom
}

// First are the first n rows, with all else as it is.
func (u Usage) First(n int) Usage {
	if len(u.Items) > n {
		u.Items, u.More = u.Items[:n:n], true
	}
	if u.Items == nil {
		u.Items = []GrantUsage{}
	}
	return u
}

// Usage tells auditors and operators what was issued since from and what was used of it.
// from is taken down to a full minute, 31 days back at most; zero = 30 days back. What it
// says is up to 15 s old, of more than two days up to 5 min: At says when it was counted.
// Callers share what they are given and do not change it.
func (b *Broker) Usage(ctx context.Context, who Principal, from time.Time, by UsageBy) (Usage, error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator); err != nil {
		return Usage{}, err
	}
	now := b.now()
	if from.IsZero() {
		from = now.Add(-usageSpan)
	}
	f := UsageFilter{From: from.UTC().Truncate(time.Minute), Now: now, By: by}
	if !f.From.Before(now) || now.Sub(f.From) > maxWindow+time.Minute {
		return Usage{}, E(Invalid, "The window must begin before now, and 31 days ago at most.", nil)
	}
	switch by {
	case UsageByScope, UsageByOwner, UsageByTask:
	default:
		return Usage{}, E(Invalid, "Usage is by scope, owner or task.", nil)
	}
	key := strings.Join([]string{f.From.String(), string(by)}, " ")
	return b.usage.get(ctx, key, now, answerAge(now.Sub(f.From)), func() (Usage, error) {
		u, err := b.cfg.Journal.Usage(ctx, f)
		if err != nil {
			return Usage{}, unavailable(err)
		}
		return u, nil
	})
}
