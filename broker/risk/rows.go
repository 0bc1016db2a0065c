package risk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// Field names a row of Compare.
type Field string

// Fields, in the order of the rows.
const (
	FieldPermission Field = "permission"
	FieldResource   Field = "resource"
	FieldAudience   Field = "audience"
	FieldTime       Field = "time"
	FieldBinding    Field = "binding"
)

// Row is one line of the comparison between present and requested permissions.
type Row struct {
	Field   Field  `json:"field"`
	Now     string `json:"now"` // "" = nothing
	Asked   string `json:"asked"`
	Changed bool   `json:"changed"`
}

// Hold is a credential or a grant at one provider: one that a task has, or one that it requests.
type Hold struct {
	Scopes   scopes.Set
	Audience string
	Left     time.Duration // of its time, whole seconds
	Binding  provider.Binding
}

// Compare returns the rows in which a request differs from the permissions that the task has now,
// at most one for each field. The present permissions count together, because a task can use its
// credentials one after the other.
func Compare(now []Hold, asked Hold) []Row {
	has := func(s scopes.Scope) bool {
		return slices.ContainsFunc(now, func(h Hold) bool { return h.Audience == asked.Audience && h.Scopes.CoversScope(s) })
	}
	rows := append(permissions(now, asked, has), Row{Field: FieldTime, Asked: length(asked.Left)})
	t := &rows[len(rows)-1]
	var left time.Duration
	for _, h := range now {
		left = max(left, h.Left)
	}
	if left > 0 {
		t.Now = length(left)
		if left >= 2*time.Minute {
			t.Now = length(left.Truncate(time.Minute))
		}
	}
	t.Changed = asked.Left > left
	keys := names(now, func(h Hold) string { return bound(h.Binding) })
	kept := slices.ContainsFunc(now, func(h Hold) bool { return h.Binding == asked.Binding })
	return append(rows, Row{FieldBinding, keys, bound(asked.Binding), len(now) > 0 && !kept})
}

// permissions returns the rows of actions, resources and audiences. If the requested actions
// differ between resources, the rows name the actions of each resource.
func permissions(now []Hold, asked Hold, has func(scopes.Scope) bool) []Row {
	want := asked.Scopes.Scopes()
	paths, actions := parts(want)
	same := len(want) == len(paths)*len(actions)
	var can []scopes.Scope // those of the requested actions, and the others on the requested resources, that the task has already
	for _, s := range want {
		if has(s) {
			can = append(can, s)
		}
	}
	for _, h := range now {
		if h.Audience != asked.Audience {
			continue
		}
		for _, s := range h.Scopes.Scopes() {
			if slices.Contains(paths, s.Resource()) && !slices.Contains(can, s) {
				can = append(can, s)
			}
		}
	}
	p := Row{Field: FieldPermission, Changed: slices.ContainsFunc(want, func(s scopes.Scope) bool { return !has(s) })}
	if same {
		p.Asked, p.Now = strings.Join(actions, ", "), some(everywhere(can, paths))
	} else {
		p.Asked, p.Now = strings.Join(pairs(want), ", "), some(pairs(can))
	}
	var all []scopes.Scope
	for _, h := range now {
		all = append(all, h.Scopes.Scopes()...)
	}
	held, _ := parts(all)
	r := Row{Field: FieldResource, Now: some(held), Asked: strings.Join(paths, ", ")}
	r.Changed = slices.ContainsFunc(paths, func(path string) bool {
		return !slices.ContainsFunc(all, func(s scopes.Scope) bool { return reaches(s, path) })
	})
	a := Row{Field: FieldAudience, Now: names(now, func(h Hold) string { return h.Audience }), Asked: asked.Audience}
	a.Changed = !slices.ContainsFunc(now, func(h Hold) bool { return h.Audience == asked.Audience })
	return []Row{p, r, a}
}

// shownNow is the highest number of present permissions that a row lists. Requested permissions
// are listed in full. Without the bound, a sandbox with many permissions could make the page too
// long to read, or to send.
const shownNow = 8

func some(names []string) string {
	if more := len(names) - shownNow; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNow], ", "), more)
	}
	return strings.Join(names, ", ")
}

// reaches reports whether the resource of scope s covers path. It ignores the actions of s.
func reaches(s scopes.Scope, path string) bool {
	there, err := scopes.New(s.Provider(), path, s.Action())
	if err != nil {
		return false
	}
	one, err := scopes.NewSet(s)
	return err == nil && one.CoversScope(there)
}

// everywhere returns the actions in can that hold for all paths. An action that holds for some of
// the paths is left out, so that the row does not claim it for the others.
func everywhere(can []scopes.Scope, paths []string) []string {
	count := map[string]int{}
	for _, s := range can {
		count[s.Action()]++
	}
	_, actions := parts(can)
	return slices.DeleteFunc(actions, func(a string) bool { return count[a] < len(paths) })
}

// parts returns the distinct resources and actions of scopes, sorted.
func parts(of []scopes.Scope) (paths, actions []string) {
	for _, s := range of {
		paths, actions = append(paths, s.Resource()), append(actions, s.Action())
	}
	slices.Sort(paths)
	slices.Sort(actions)
	return slices.Compact(paths), slices.Compact(actions)
}

func pairs(of []scopes.Scope) []string {
	var out []string
	for _, s := range of {
		out = append(out, s.Action()+" on "+s.Resource())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func names(now []Hold, name func(Hold) string) string {
	var out []string
	for _, h := range now {
		out = append(out, name(h))
	}
	slices.Sort(out)
	return some(slices.Compact(out))
}

// bound describes the key binding of a credential (RFC 7800 section 3.1).
func bound(b provider.Binding) string {
	switch {
	case b.X5T != "":
		return "certificate " + b.X5T
	case b.JKT != "":
		return "key " + b.JKT
	}
	return "nothing"
}

// length formats d for a person: in minutes from two minutes on.
func length(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case s < 120:
		return fmt.Sprintf("%d s", s)
	case s%60 != 0:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	}
	return fmt.Sprintf("%d min", s/60)
}
