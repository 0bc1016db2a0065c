package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/scopes/policy"
	"ebb/web/api"
)

// policies keeps the policy set in force equal to the policy directory. A set
// that does not load changes nothing but the log and the record.
type policies struct {
	live    *policy.Live
	source  fs.FS // nil = the starter policy, which never changes
	journal broker.Journal
	log     *slog.Logger
	now     func() time.Time
	shown   atomic.Pointer[[]api.PolicyFile]
	seen    string // sum of the files that were last looked at
}

// openPolicies loads the policies; a start with broken ones is refused, because
// there is no last good set to stay with.
func openPolicies(s settings, journal broker.Journal) (*policies, error) {
	p := &policies{live: policy.NewLive(policy.Starter()), source: s.Policy, journal: journal, log: s.Log, now: s.Now}
	if p.source == nil && s.PolicyDir != "" {
		p.source = os.DirFS(s.PolicyDir)
	}
	if p.source == nil {
		p.shown.Store(&[]api.PolicyFile{{Name: "starter.cedar", Text: policy.StarterSource()}})
		return p, nil
	}
	files, sum, err := readPolicies(p.source)
	if err != nil {
		return nil, fail("the policies cannot be read: "+err.Error(), "check policy_dir (EBB_POLICY_DIR)")
	}
	set, err := policy.LoadDir(p.source)
	if err != nil {
		return nil, &failure{exitUsage, err.Error(), "`ebb policy check " + s.PolicyDir + "` checks without starting"}
	}
	p.live.Replace(set)
	p.seen = sum
	p.shown.Store(&files)
	return p, nil
}

// files are the policies in force.
func (p *policies) files() []api.PolicyFile { return *p.shown.Load() }

// watch looks at the directory every round, and at once when reload says so.
func (p *policies) watch(ctx context.Context, round time.Duration, reload <-chan struct{}) error {
	t := time.NewTicker(round)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			p.look(ctx, false)
		case <-reload:
			p.look(ctx, true)
		}
	}
}

// look loads the directory if it changed, or if asked to.
func (p *policies) look(ctx context.Context, asked bool) {
	if p.source == nil {
		if asked {
			p.log.InfoContext(ctx, "the built-in starter policy is in force; there is nothing to reload")
		}
		return
	}
	files, sum, err := readPolicies(p.source)
	if err != nil {
		sum = "unreadable: " + err.Error()
	}
	if sum == p.seen && !asked {
		return
	}
	p.seen = sum
	var set *policy.Set
	if err == nil {
		set, err = policy.LoadDir(p.source)
	}
	before := p.live.Current().Version()
	if err != nil {
		p.log.ErrorContext(ctx, "POLICIES NOT RELOADED: the last good ones stay in force", "policy", before, "error", err)
		p.record(ctx, audit.PolicyRejected, map[string]any{"in_force": before, "problems": problemTexts(err)})
		return
	}
	if set.Version() != before {
		// On the record first: nothing may be decided by a set that the record does not name.
		p.record(ctx, audit.PolicyReloaded, map[string]any{"before": before, "policy": set.Version()})
	}
	p.live.Replace(set)
	p.shown.Store(&files)
	p.log.InfoContext(ctx, "policies reloaded", "policy", set.Version(), "policies", set.Len(), "changed", set.Version() != before)
}

func (p *policies) record(ctx context.Context, kind string, data map[string]any) {
	raw, err := json.Marshal(data)
	if err == nil {
		err = p.journal.Append(ctx, broker.Record{Entries: []audit.Entry{{At: p.now(), Kind: kind, Actor: "ebb", Data: raw}}})
	}
	if err != nil {
		p.log.ErrorContext(ctx, "a change of policy could not be recorded", "kind", kind, "error", err)
	}
}

// problemTexts bounds what goes on the record.
func problemTexts(err error) []string {
	le, ok := errors.AsType[*policy.LoadError](err)
	if !ok {
		return []string{"the policy directory could not be read"}
	}
	var texts []string
	for _, problem := range le.Problems[:min(len(le.Problems), 20)] {
		texts = append(texts, problem.String())
	}
	return texts
}

// readPolicies reads the *.cedar files at the top of fsys and sums them up.
func readPolicies(fsys fs.FS) ([]api.PolicyFile, string, error) {
	names, err := fs.Glob(fsys, "*.cedar")
	if err != nil {
		return nil, "", err
	}
	slices.Sort(names)
	h := sha256.New()
	files := make([]api.PolicyFile, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, "", err
		}
		sum := sha256.Sum256(text)
		h.Write([]byte(name + "\x00"))
		h.Write(sum[:])
		files = append(files, api.PolicyFile{Name: name, Text: string(text)})
	}
	return files, hex.EncodeToString(h.Sum(nil)), nil
}
