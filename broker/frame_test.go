package broker

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/broker/provider"
	"ebb/scopes"
)

// I4 and I5: whatever asked, policy, grant, task, parent and evidence say, what
// is issued is inside all of them, or nothing is issued.
func TestFrameNeverWidens(t *testing.T) {
	b := &Broker{cfg: Config{Limits: Limits{}.withDefaults()}}
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
		w := want{
			asker:    asker{live: Live{Task: Task{Ceiling: set("ceiling"), Deadline: moment("deadline")}}, notAfter: moment("evidence")},
			scopes:   set("asked"),
			ttl:      time.Duration(rapid.Int64Range(0, 7200).Draw(t, "ttl")) * time.Second,
			provider: Provider{MaxTTL: time.Duration(rapid.Int64Range(0, 7200).Draw(t, "max")) * time.Second},
		}
		if rapid.Bool().Draw(t, "parent?") {
			w.parent = &ownToken{scopes: set("parent"), exp: moment("parent exp").Truncate(time.Second)}
			w.notAfter = w.parent.exp
		}
		d := decided{scopes: set("decided"), ttl: time.Duration(rapid.Int64Range(0, 7200).Draw(t, "policy")) * time.Second, until: moment("grant")}
		got, exp, err := b.frame(w, d, now)
		if err != nil {
			return
		}
		for name, end := range map[string]time.Time{
			"asked": now.Add(w.ttl), "policy": now.Add(d.ttl), "provider": now.Add(b.maxTTL(w.provider)),
			"deadline": w.live.Deadline, "evidence": w.notAfter, "grant": d.until,
		} {
			if !end.IsZero() && exp.After(end) {
				t.Fatalf("expires %v, after the end of %s %v", exp, name, end)
			}
		}
		if !exp.After(now) || exp.Nanosecond() != 0 {
			t.Fatalf("expires %v", exp)
		}
		if got.Empty() || !w.scopes.Covers(got) || !w.live.Ceiling.Covers(got) || !d.scopes.Covers(got) {
			t.Fatalf("issued %s beyond asked %s, ceiling %s or decided %s", got, w.scopes, w.live.Ceiling, d.scopes)
		}
		if w.parent != nil && (!w.parent.scopes.Covers(got) || exp.After(w.parent.exp)) {
			t.Fatalf("issued %s until %v beyond the parent %s until %v", got, exp, w.parent.scopes, w.parent.exp)
		}
	})
}

func FuzzDeferralCode(f *testing.F) {
	b := &Broker{codeKey: []byte(strings.Repeat("k", 32))}
	good := b.codeOf("req_"+strings.Repeat("0a", 16), provider.Binding{JKT: "k"}).Reveal()
	f.Add(good)
	f.Add("ebb_dfr_")
	f.Add(good + "=")
	f.Fuzz(func(t *testing.T, code string) {
		if id, key, is := b.requestOfCode(code); is && b.codeFor(id, key).Reveal() != code {
			t.Fatalf("%q was taken for the code of %s", code, id)
		}
	})
}
