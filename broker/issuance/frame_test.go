package issuance

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/scopes"
)

// I4 and I5: an issued token is inside every limit (request, policy, grant, task, parent,
// evidence), or no token is issued.
//
//ebb:invariant I4 A credential lives no longer than its mint request asked for
//ebb:invariant I4 A credential lives no longer than policy allows
//ebb:invariant I5 A mint is refused unless the scope that the request asked for covers the issued scope
func TestFrameNeverWidens(t *testing.T) {
	b := &TokenIssuer{limits: broker.Limits{}.WithDefaults()}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		moment := func(name string) time.Time {
			switch rapid.IntRange(0, 3).Draw(t, name+"?") {
			case 0:
				return time.Time{}
			default:
				return now.Add(time.Duration(rapid.Int64Range(-5000, 90_000_000).Draw(t, name)) * time.Millisecond)
			}
		}
		set := func(name string) scopes.Set {
			ss := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
				"o:a:read", "o:a:write", "o:a/b:read", "o:a/*:read", "o:a/**:read", "o:**:read", "o:**:*", "o:a/b:*",
			}), 1, 4, rapid.ID).Draw(t, name)
			s, err := scopes.ParseSet(strings.Join(ss, " "))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		w := kernel.MintRequest{
			Caller:   kernel.Caller{Live: broker.Live{Task: broker.Task{Ceiling: set("ceiling"), Deadline: moment("deadline")}}, NotAfter: moment("evidence")},
			Scopes:   set("asked"),
			TTL:      time.Duration(rapid.Int64Range(0, 7200).Draw(t, "ttl")) * time.Second,
			Provider: broker.Provider{MaxTTL: time.Duration(rapid.Int64Range(0, 7200).Draw(t, "max")) * time.Second},
		}
		if rapid.Bool().Draw(t, "parent?") {
			w.Parent = &kernel.OwnToken{Scopes: set("parent"), Exp: moment("parent exp").Truncate(time.Second)}
			w.NotAfter = w.Parent.Exp
		}
		d := kernel.Decision{Scopes: set("decided"), TTL: time.Duration(rapid.Int64Range(0, 7200).Draw(t, "policy")) * time.Second, Until: moment("grant")}
		got, exp, err := b.frame(w, d, now)
		if err != nil {
			return
		}
		for name, end := range map[string]time.Time{
			"asked": now.Add(w.TTL), "policy": now.Add(d.TTL), "provider": now.Add(b.MaxTTL(w.Provider)),
			"deadline": w.Live.Deadline, "evidence": w.NotAfter, "grant": d.Until,
		} {
			if !end.IsZero() && exp.After(end) {
				t.Fatalf("expires %v, after the end of %s %v", exp, name, end)
			}
		}
		if !exp.After(now) || exp.Nanosecond() != 0 {
			t.Fatalf("expires %v", exp)
		}
		if got.Empty() || !w.Scopes.Covers(got) || !w.Live.Ceiling.Covers(got) || !d.Scopes.Covers(got) {
			t.Fatalf("issued %s beyond asked %s, ceiling %s or decided %s", got, w.Scopes, w.Live.Ceiling, d.Scopes)
		}
		if w.Parent != nil && (!w.Parent.Scopes.Covers(got) || exp.After(w.Parent.Exp)) {
			t.Fatalf("issued %s until %v beyond the parent %s until %v", got, exp, w.Parent.Scopes, w.Parent.Exp)
		}
	})
}
