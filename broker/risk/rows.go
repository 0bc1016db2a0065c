package risk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/broker/provider"
	"ebb/scopes"
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

// Row is one line of what changes if a request is approved.
type Row struct {
	Field   Field  `json:"field"`
	Now     string `json:"now"` // "" = nothing
	Asked   string `json:"asked"`
	Changed bool   `json:"changed"`
}

// Hold is a credential, or a grant, that a task has or asks for, at one provider.
type Hold struct {
	Scopes   scopes.Set
	Audience string
	Left     time.Duration // of its time, whole seconds
	Binding  provider.Binding
}

// Compare says what a task that has now asks for: at most one row a field. What it
// has together counts, as it can use one after the other.
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
	}
	t.Changed = asked.Left > left
	keys := names(now, func(h Hold) string { return bound(h.Binding) })
	kept := slices.ContainsFunc(now, func(h Hold) bool { return h.Binding == asked.Binding })
	return append(rows, Row{FieldBinding, keys, bound(asked.Binding), len(now) > 0 && !kept})
}

// permissions are the rows of actions, resources and audiences. Where the asked
// actions are not the same for each of the resources, each is said with its own.
func permissions(now []Hold, asked Hold, has func(scopes.Scope) bool) []Row {
	want := asked.Scopes.Scopes()
	paths, actions := parts(want)
	same := len(want) == len(paths)*len(actions)
	var can []scopes.Scope // what it can do already of the asked actions, and others on the asked resources
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

// shownNow is how much a row lists of what a task has. What it asks for is said in full;
// a sandbox that has very much must not make a page of it that nobody reads or sends.
const shownNow = 8

func some(names []string) string {
	if more := len(names) - shownNow; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNow], ", "), more)
	}
	return strings.Join(names, ", ")
}

// reaches reports whether a scope's resource covers a path, whatever it may do there.
func reaches(s scopes.Scope, path string) bool {
	there, err := scopes.New(s.Provider(), path, s.Action())
	if err != nil {
		return false
	}
	one, err := scopes.NewSet(s)
	return err == nil && one.CoversScope(there)
}

// everywhere are the actions that are among can for all paths: nobody is told of
// something the task can do that it can do in one place only.
func everywhere(can []scopes.Scope, paths []string) []string {
	count := map[string]int{}
	for _, s := range can {
		count[s.Action()]++
	}
	_, actions := parts(can)
	return slices.DeleteFunc(actions, func(a string) bool { return count[a] < len(paths) })
}

// parts are the different resources and actions of scopes, sorted.
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

// bound says what a credential is bound to: the key of the one sandbox a task has.
func bound(b provider.Binding) string {
	switch {
	case b.X5T != "":
		return "certificate " + b.X5T
	case b.JKT != "":
		return "key " + b.JKT
	}
	return "nothing"
}

// length is a time in the words of people: minutes from two on.
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
