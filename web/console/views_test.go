package console_test

import (
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/people"
)

// saves saves the filter of an address as a view of its list.
func (b *browser) saves(at, name string) answer {
	return b.send(b.get(at), "/views", url.Values{"save": {"yes"}, "name": {name}})
}

// viewsOf returns the stored views of a person.
func (h *fixture) viewsOf(person string) people.Views {
	h.t.Helper()
	r, err := h.Store.Reach(h.t.Context(), person)
	if err != nil {
		h.t.Fatal(err)
	}
	return r.Preferences.Views
}

// TestViews: a person saves filters on every list, opens, replaces and deletes
// them, and lets a page open with one.
func TestViews(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Auditor)
	for at, filter := range map[string]string{
		"/queue": "provider=aws&q=orders&risk=high&task=x&view=all", "/requests": "by=ann&owner=o&risk=low&rule=r&state=denied&task=x&when=7d", "/tasks": "kind=ci&owner=o&state=open",
		"/credentials": "owner=o&provider=aws&resource=r&sandbox=s&scope=a&sort=oldest&state=live&task=x&when=today", "/audit": "actor=a&kind=lease.&lease=l&request=r&sort=oldest&task=t&when=30d",
	} {
		b.get(at).is(t, http.StatusOK, "Filter the list first")
		b.saves(at+"?"+filter, " My view ").is(t, http.StatusSeeOther)
		page := b.get(at)
		page.is(t, http.StatusOK, `href="`+html.EscapeString(at+"?"+filter)+`"`, "<bdi>My view</bdi>")
		b.get(at+"?"+filter).is(t, http.StatusOK, `aria-current="true"><bdi>My view</bdi>`)
		if strings.Contains(page.body, "default view") {
			t.Errorf("%s has a default view", at)
		}
		// As the default, the view opens with the page.
		b.send(page, "/views", url.Values{"default": {"My view"}}).is(t, http.StatusSeeOther)
		a := b.get(at)
		if a.is(t, http.StatusSeeOther); a.Header.Get("Location") != at+"?"+filter {
			t.Errorf("%s led to %s", at, a.Header.Get("Location"))
		}
		open := b.get(a.Header.Get("Location"))
		open.is(t, http.StatusOK, "This is your default view", at+"?show=all")
		all := b.get(at + "?show=all")
		if all.is(t, http.StatusOK); strings.Contains(all.body, "This is your default view") {
			t.Errorf("%s?show=all shows a view", at)
		}
		b.send(open, "/views", url.Values{"default": {""}}).is(t, http.StatusSeeOther)
		b.get(at).is(t, http.StatusOK)
	}
	// A range with dates is stored in UTC; the same name replaces the view.
	b.saves("/tasks?owner=bo", "My view").is(t, http.StatusSeeOther)
	b.saves("/audit?when=2026-01-01&from=2026-01-02T03:04:05", "none").is(t, http.StatusBadRequest) // the page has no list
	b.cookies["ebb-zone"] = "Asia/Tokyo"
	b.saves("/audit?from=2026-01-02T03:04", "range").is(t, http.StatusSeeOther)
	views := h.viewsOf(brokertest.Auditor)
	if w := views["/tasks"].Fields["My view"]; views.Len() != 6 || w["owner"] != "bo" || len(w) != 1 || views["/audit"].Fields["range"]["from"] != "2026-01-01T18:04:00Z" {
		t.Errorf("%+v", views)
	}
	b.send(b.get("/tasks?state=open"), "/views", url.Values{"delete": {"My view"}}).is(t, http.StatusSeeOther)
	if views := h.viewsOf(brokertest.Auditor); views.Len() != 5 || len(views["/tasks"].Fields) != 0 {
		t.Errorf("%+v", views)
	}
	// Notification preferences keep them, and they keep the preferences.
	b.send(b.get("/settings"), "/settings/notifications", url.Values{"high": {"now"}, "medium": {"off"}, "low": {"off"}, "quiet_from": {""}, "quiet_to": {""}, "quiet_zone": {""}}).is(t, http.StatusSeeOther)
	b.send(b.get("/audit?sort=oldest"), "/views", url.Values{"save": {"yes"}, "name": {"oldest"}}).is(t, http.StatusSeeOther)
	if r, err := h.Store.Reach(t.Context(), brokertest.Auditor); err != nil || r.Preferences.Views.Len() != 6 || r.Preferences.Low != people.Never {
		t.Errorf("%+v, %v", r.Preferences, err)
	}
}

// TestHostileViews: a view holds fields of its list alone, and belongs to the
// person who saved it.
func TestHostileViews(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Auditor)
	send := func(f url.Values) answer {
		form := url.Values{"nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], "/views")}, "list": {"/audit"}, "filter": {"kind=lease."}, "save": {"yes"}, "name": {"mine"}}
		for name, v := range f {
			if form[name] = v; v == nil {
				delete(form, name)
			}
		}
		return b.do(http.MethodPost, "/views", form, nil)
	}
	long := strings.Repeat("x", 41)
	for name, f := range map[string]url.Values{
		"two lists": {"list": {"/audit", "/tasks"}}, "no list": {"list": nil}, "another page": {"list": {"/settings"}}, "another site": {"list": {"https://evil.example/"}}, "a path": {"list": {"//evil.example"}}, "a list with a query": {"list": {"/audit?kind=lease."}},
		"another list's field": {"filter": {"kind=lease.&provider=aws"}}, "a field twice": {"filter": {"kind=lease.&kind=task."}}, "a URL": {"filter": {"https://evil.example/?kind=x"}}, "no query": {"filter": {"%zz"}}, "a cursor": {"filter": {"kind=lease.&after=x"}},
		"no filter": {"filter": {""}}, "hidden text": {"filter": {"actor=a%E2%80%AEb"}}, "a long value": {"filter": {"actor=" + strings.Repeat("a", 513)}},
		"no name": {"name": {" "}}, "a long name": {"name": {long}}, "a control character": {"name": {"a\nb"}}, "NUL": {"name": {"a\x00"}}, "escape": {"name": {"a\x1b[1m"}}, "bidi": {"name": {"a\u202eb"}}, "isolate": {"name": {"a\u2066b"}}, "zero width": {"name": {"a\u200bb"}}, "filler": {"name": {"\u3164"}},
		"invalid UTF-8": {"name": {"a\xff"}}, "a tag": {"name": {"a\U000e0041"}}, "a no-break space": {"name": {"a\u00a0b"}}, "nothing to do": {"save": nil},
	} {
		if a := send(f); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	if got := h.viewsOf(brokertest.Auditor); got.Len() != 0 {
		t.Fatalf("stored: %+v", got)
	}
	b.do(http.MethodPost, "/views", url.Values{"list": {"/audit"}, "filter": {"kind=lease."}, "save": {"yes"}, "name": {"mine"}}, nil).is(t, http.StatusConflict) // without the form's nonce
	markup := `"><script>alert(1)</script>`
	send(url.Values{"name": {markup}, "filter": {url.Values{"actor": {markup}}.Encode()}}).is(t, http.StatusSeeOther)
	if a := b.get("/audit"); strings.Contains(a.body, "<script>alert") {
		t.Error(a.body)
	}
	// Others do not have it, and cannot change it.
	other := h.as(brokertest.Operator)
	if a := other.get("/audit"); strings.Contains(a.body, "alert(1)") {
		t.Error("another person's view is shown")
	}
	other.send(other.get("/audit"), "/views", url.Values{"delete": {markup}}).is(t, http.StatusNotFound)
	other.send(other.get("/audit"), "/views", url.Values{"default": {markup}}).is(t, http.StatusNotFound)
	// A viewer cannot see the audit log.
	viewer := h.as(brokertest.Viewer)
	viewer.do(http.MethodPost, "/views", url.Values{"nonce": {h.console.NonceFor(viewer.cookies["__Host-ebb-sess"], "/views")}, "list": {"/audit"}, "filter": {"kind=lease."}, "save": {"yes"}, "name": {"mine"}}, nil).is(t, http.StatusForbidden)
	// The JSON of all views is limited, with its escapes.
	escaped := url.Values{"filter": {"actor=" + strings.Repeat("%3C", 400)}}
	for i := range 3 {
		escaped.Set("name", "big"+strconv.Itoa(i))
		send(escaped).is(t, http.StatusSeeOther)
	}
	escaped.Set("name", "big3")
	send(escaped).is(t, http.StatusBadRequest, "at most 8192 bytes")
	for i := range 3 {
		send(url.Values{"save": nil, "delete": {"big" + strconv.Itoa(i)}}).is(t, http.StatusSeeOther)
	}
	for i := h.viewsOf(brokertest.Auditor).Len(); i < people.MaxViews; i++ {
		send(url.Values{"name": {"n" + strconv.Itoa(i)}}).is(t, http.StatusSeeOther)
	}
	send(url.Values{"name": {"one more"}}).is(t, http.StatusBadRequest, "at most 20 saved views")
	send(url.Values{"name": {"n7"}, "filter": {"kind=task."}}).is(t, http.StatusSeeOther) // replaced
	b.get("/audit?kind=task.").is(t, http.StatusOK, "Delete one to save another")
	if got := h.viewsOf(brokertest.Auditor); got.Len() != people.MaxViews {
		t.Errorf("%d views", got.Len())
	}
}
