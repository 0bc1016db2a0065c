package notifier_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/notifier"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/scopes"
)

// told returns the recipients of a new request's notices.
func (r *rig) told() string {
	r.t.Helper()
	q := r.asks(highScope, "")
	r.look()
	return r.toldOf(q)
}

// toldOf returns the recipients of a request's notices so far.
func (r *rig) toldOf(q broker.Request) string {
	r.t.Helper()
	all, err := r.Store.Told(r.t.Context(), q.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, to := range all {
		out = append(out, to.Person)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// TestAbsence: a request notifies the delegate of a person who is away, and the
// person if the delegate would not be notified or may not decide.
func TestAbsence(t *testing.T) {
	t.Parallel()
	const owner = "bo@example.com" // of the tasks
	for name, tt := range map[string]struct {
		away   string // delegate of ann
		change func(r *rig, away func(delegate string) people.Preferences)
		want   string
	}{
		"delegate":      {away: "cy", want: "cy"},
		"present":       {want: "ann cy"},
		"to oneself":    {away: "ann", want: "ann cy"},
		"to a stranger": {away: "zed", want: "ann cy"},
		"to the owner":  {away: owner, want: "ann cy", change: func(r *rig, _ func(string) people.Preferences) { r.knows(owner, people.DefaultPreferences(), nil) }},
		"delegate is away": {away: "cy", want: "ann dee", change: func(r *rig, away func(string) people.Preferences) {
			r.knows("cy", away("dee"), nil)
			r.knows("dee", people.DefaultPreferences(), nil)
		}},
		"both away": {away: "cy", want: "ann cy", change: func(r *rig, away func(string) people.Preferences) { r.knows("cy", away("ann"), nil) }},
		"delegate wants none": {away: "cy", want: "ann", change: func(r *rig, _ func(string) people.Preferences) {
			w := people.DefaultPreferences()
			w.High = people.Never
			r.knows("cy", w, nil)
		}},
		"delegate has no address": {away: "cy", want: "ann", change: func(r *rig, _ func(string) people.Preferences) {
			r.knows("cy", people.DefaultPreferences(), func(p *people.Reach) { p.Mail = "" })
		}},
		"delegate left the group": {away: "cy", want: "ann", change: func(r *rig, _ func(string) people.Preferences) {
			r.knows("cy", people.DefaultPreferences(), func(p *people.Reach) { p.Groups = []string{"others"} })
		}},
		"delegate lost the role": {away: "cy", want: "ann", change: func(r *rig, _ func(string) people.Preferences) {
			r.knows("cy", people.DefaultPreferences(), func(p *people.Reach) { p.Roles = []string{"viewer"} })
		}},
		"delegate may decide less": {away: "cy", want: "ann cy", change: func(r *rig, _ func(string) people.Preferences) {
			r.bounds = map[string][]scopes.Set{"cy": {scopes.MustParseSet("mail:**:read")}}
		}},
		"delegate has not signed in": {away: "cy", want: "ann", change: func(r *rig, _ func(string) people.Preferences) {
			r.knows("cy", people.DefaultPreferences(), func(p *people.Reach) { p.SeenAt = p.SeenAt.Add(-people.KnownFor - time.Hour) })
		}},
		"over": {away: "cy", want: "ann cy", change: func(r *rig, _ func(string) people.Preferences) { r.Clock.Add(49 * time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, notifier.Route{Channels: []string{"mail"}, Escalate: []string{"mail"}})
			away := func(delegate string) people.Preferences {
				w := people.DefaultPreferences()
				if delegate != "" {
					w.Away = people.Absence{Until: r.Clock.Now().Add(48 * time.Hour), Delegate: delegate}
				}
				return w
			}
			r.knows("ann", away(tt.away), nil)
			r.knows("cy", people.DefaultPreferences(), nil)
			if tt.change != nil {
				tt.change(r, away)
			}
			if got := r.told(); got != tt.want {
				t.Errorf("told %s, want %s", got, tt.want)
			}
			// Break-glass ignores absences.
			r.mails.take()
			glass := 0
			r.record(audit.Entry{Kind: audit.BreakGlassBegun, Actor: "someone"})
			r.look()
			known, err := r.Store.Reachable(t.Context(), r.Clock.Now().Add(-people.KnownFor))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range known {
				if p.Mail != "" && slices.Contains(p.Roles, "approver") {
					glass--
				}
			}
			for _, m := range r.mails.take() {
				if m.Data.Event == "breakglass" {
					glass++
				}
			}
			if glass != 0 {
				t.Errorf("%d notices of break-glass too many", glass)
			}
		})
	}
}

// TestAbsenceAfterPlanning: a digest and an escalation that were planned before an absence go to the
// delegate, even if the delegate was away when they were planned. If the delegate gets no such
// notices, they go to the person.
func TestAbsenceAfterPlanning(t *testing.T) {
	t.Parallel()
	digest := people.DefaultPreferences()
	digest.High = people.InDigest
	absent := func(r *rig, delegate string) people.Preferences {
		w := digest
		w.Away = people.Absence{Until: r.Clock.Now().Add(48 * time.Hour), Delegate: delegate}
		return w
	}
	for name, tt := range map[string]struct {
		before, after func(r *rig)
		route         notifier.Route
		want          string // recipients of the digest
		late          int    // recipients of the escalation
	}{
		"present":          {want: "ann cy", late: 2},
		"delegate":         {after: func(r *rig) { r.knows("ann", absent(r, "cy"), nil) }, want: "cy", late: 1},
		"delegate is back": {before: func(r *rig) { r.knows("cy", absent(r, "ann"), nil) }, after: func(r *rig) { r.knows("cy", digest, nil); r.knows("ann", absent(r, "cy"), nil) }, want: "cy", late: 1},
		"delegate left": {after: func(r *rig) {
			r.knows("ann", absent(r, "cy"), nil)
			r.knows("cy", digest, func(p *people.Reach) { p.Groups = nil })
		}, want: "ann cy", late: 2},
		"delegate is not notified of escalations": {route: notifier.Route{EscalateGroups: []string{"leads"}}, before: func(r *rig) {
			r.knows("ann", digest, func(p *people.Reach) { p.Groups = append(p.Groups, "leads") })
		}, after: func(r *rig) {
			r.knows("ann", absent(r, "cy"), func(p *people.Reach) { p.Groups = append(p.Groups, "leads") })
		}, want: "cy", late: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.route.Channels, tt.route.Escalate = []string{"mail"}, []string{"mail"}
			r := newRig(t, tt.route)
			r.knows("ann", digest, nil)
			r.knows("cy", digest, nil)
			if tt.before != nil {
				tt.before(r)
			}
			q := r.asks(highScope, "")
			r.look()
			count(t, r.mails.take(), 0)
			if tt.after != nil {
				tt.after(r)
			}
			r.turn(14 * time.Minute)
			late := 0
			if got := r.toldOf(q); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
			for range 3 {
				r.turn(5 * time.Minute)
			}
			for _, m := range r.mails.take() {
				if m.Type == "request.escalated" {
					late++
				}
			}
			if late != tt.late {
				t.Errorf("%d escalations, want %d", late, tt.late)
			}
		})
	}
}

// TestAbsenceWithQuorum: a delegate has one vote, so a request that needs two
// people also notifies the person who is away.
func TestAbsenceWithQuorum(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, map[string][]byte{"p.cedar": []byte(`@id("two") @ask("approvers") @quorum("2") permit (principal, action, resource);`)}, notifier.Route{Channels: []string{"mail"}})
	w := people.DefaultPreferences()
	w.Away = people.Absence{Until: r.Clock.Now().Add(48 * time.Hour), Delegate: "cy"}
	r.knows("ann", w, nil)
	r.knows("cy", people.DefaultPreferences(), nil)
	if got := r.told(); got != "ann cy" {
		t.Errorf("told %s, want both", got)
	}
}
