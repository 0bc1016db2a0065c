package requests

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// batchPath is the path of the page for batch decisions.
const batchPath = "/batch"

// fieldOf is the form field of a request of the group: its id, a colon, and the digest of its
// facts.
const fieldOf = "of[]"

// maxSeen limits the snapshots of a group, in bytes of the form field, so that the form stays
// below web.Limits.Body.
const maxSeen = 48 << 10

// batchPage is a group of alike requests, and one form to decide them.
type batchPage struct {
	Shared  shown // the facts that all requests have in common
	Several bool  // their titles differ, in resources or verbs
	Items   []batchItem
	Halves  []string // paths of smaller groups, if one form cannot hold the snapshots of all
	Seen    string   // the snapshots, signed
	Proof   proof.Demand
	Ask     string // URL of the passkey challenge; "" = no passkey is needed
	Again   string // path that signs the person in again and returns to this page; "" = none
	Off     string // why no request of the group can be approved
	Codes   []code
	Typed   typed
	Problem string            // of the form as a whole
	Wrong   map[string]string // problems by form field
	Draft   []string          // ids of the requests, if the visitor may draft a rule for them
	Keys    bool              // shortcuts are on
}

// batchItem is one request of a group, with the facts in which it differs from the others.
type batchItem struct {
	Shown shown
	Name  string // of the task
	Owner string
	Of    string // value of fieldOf; "" = the visitor cannot decide it
	Taken bool   // it is selected
	N     int
	Left  time.Time
	Why   string // why it cannot be decided or approved
}

// Focus reports whether the page puts the focus on this field after a rejected form.
func (p batchPage) Focus(field string) bool { return p.Wrong[field] != "" }

func batchLink(ids []string) string { return batchPath + "?" + url.Values{"id": ids}.Encode() }

// batchOf loads the requests of a group, in the given order.
func (ps *Pages) batchOf(c echo.Context, v *session.Visit, ids []string) ([]broker.Request, error) {
	if len(ids) > approval.MaxBatch {
		return nil, approval.CheckBatch(make([]broker.Request, len(ids)))
	}
	var rs []broker.Request
	for _, id := range ids {
		r, err := ps.b.Request(c.Request().Context(), v.Principal, id)
		if err != nil {
			return nil, err
		}
		rs = append(rs, r)
	}
	return rs, approval.CheckBatch(rs)
}

func (ps *Pages) batch(c echo.Context, v *session.Visit) error {
	rs, err := ps.batchOf(c, v, c.QueryParams()["id"])
	if err != nil {
		return err
	}
	return ps.drawBatch(c, v, http.StatusOK, rs, batchPage{})
}

// drawBatch shows a group. page has the input of a rejected form; taken are the values of
// fieldOf that were selected in it, none = all.
func (ps *Pages) drawBatch(c echo.Context, v *session.Visit, status int, rs []broker.Request, page batchPage, taken ...string) error {
	vw := ps.shell.View(c, v, shell.Frame{}, nil)
	var all []shown
	for _, r := range rs {
		all = append(all, ps.show(vw, r, nil))
	}
	var err error
	if page.Seen, err = ps.seal(all); err != nil {
		return err
	}
	var ids []string
	for _, r := range rs {
		ids = append(ids, r.ID)
	}
	if len(page.Seen) > maxSeen && len(rs) > 1 {
		for some := range slices.Chunk(ids, (len(ids)+1)/2) {
			page.Halves = append(page.Halves, batchLink(some))
		}
	}
	may, offs := 0, 0
	for i, r := range rs {
		g := ps.summaries.of(r)
		item := batchItem{Name: g.name, Owner: r.Owner, N: i + 1, Left: r.ExpiresAt}
		if item.Why = whyNot(vw, r); item.Why == "" {
			item.Of, may = r.ID+":"+r.Digest, may+1
			item.Taken = len(taken) == 0 || slices.Contains(taken, item.Of)
			if item.Why, _ = ps.off(c, v, r, all[i]); item.Why != "" {
				page.Off, offs = item.Why, offs+1
			}
		}
		page.Items = append(page.Items, item)
	}
	if offs < may {
		page.Off = ""
	}
	longest := longestOf(rs)
	page.Shared, page.Several = share(all)
	if slices.ContainsFunc(rs, func(r broker.Request) bool { return r.TTL != longest }) {
		page.Shared.Length = "at most " + shell.Span(longest.Duration())
	}
	for i := range page.Items {
		page.Items[i].Shown = all[i]
	}
	if page.Proof, err = ps.proofs.Demand(c, v, rs[0].Level(), newest(rs)); err != nil {
		return err
	}
	if page.Proof.Key() {
		page.Ask = ps.shell.Base() + batchPath + "/challenge"
	}
	if page.Again = ps.proofs.Again(vw, batchPath); page.Again != "" {
		page.Again += "?" + url.Values{"id": ids}.Encode()
	}
	page.Codes, page.Draft, page.Keys = codes, drafting(v, rs...), ps.people.shortcuts(c.Request().Context(), v)
	heading := fmt.Sprintf("%d alike requests", len(rs))
	if len(rs) == 1 {
		heading = "1 request"
	}
	return ps.shell.Draw(c, status, v, "batch", shell.Frame{Title: heading, Nav: "/queue"}, page)
}

// longestOf returns the longest requested lifetime.
func longestOf(rs []broker.Request) broker.Seconds {
	return slices.MaxFunc(rs, func(a, b broker.Request) int { return cmp.Compare(a.TTL, b.TTL) }).TTL
}

// newest returns the time of the newest request. A proof of a batch decision must be newer.
func newest(rs []broker.Request) time.Time {
	return slices.MaxFunc(rs, func(a, b broker.Request) int { return a.CreatedAt.Compare(b.CreatedAt) }).CreatedAt
}

// share removes the facts that all pages have in common from each of them, and returns a page of
// these facts, and whether the titles differ.
func share(all []shown) (out shown, several bool) {
	out = all[0]
	targets := map[string]bool{out.Title.Target: true}
	for _, sh := range all[1:] {
		targets[sh.Title.Target] = true
		several = several || sh.Title != all[0].Title
		if sh.Title.Verb != out.Title.Verb {
			out.Title.Verb = "Grant access to"
		}
		out.Rows, out.Summary, out.Lines = common(out.Rows, sh.Rows), common(out.Summary, sh.Summary), common(out.Lines, sh.Lines)
		out.Reasons, out.Undo, out.Before = common(out.Reasons, sh.Reasons), common(out.Undo, sh.Undo), common(out.Before, sh.Before)
	}
	switch {
	case len(targets) > 1:
		out.Title.Target, out.Title.More = fmt.Sprintf("%d resources", len(targets)), 0
	case several:
		out.Title.Target, out.Title.More = "several resources", 0
	}
	for i := range all {
		sh := &all[i]
		sh.Rows, sh.Summary, sh.Lines = less(sh.Rows, out.Rows), less(sh.Summary, out.Summary), less(sh.Lines, out.Lines)
		sh.Reasons, sh.Undo, sh.Before = less(sh.Reasons, out.Reasons), less(sh.Undo, out.Undo), less(sh.Before, out.Before)
	}
	return out, several
}

func common[T comparable](a, b []T) []T {
	return slices.DeleteFunc(slices.Clone(a), func(x T) bool { return !slices.Contains(b, x) })
}

func less[T comparable](a, b []T) []T {
	return slices.DeleteFunc(slices.Clone(a), func(x T) bool { return slices.Contains(b, x) })
}

// decisionsOf returns the decisions that the values of fieldOf name, in their order.
func decisionsOf(of []string, choice string) ([]passkey.Decision, error) {
	if len(of) > approval.MaxBatch {
		return nil, approval.CheckBatch(make([]broker.Request, len(of)))
	}
	var ds []passkey.Decision
	for _, text := range of {
		id, digest, found := strings.Cut(text, ":")
		if !found || !broker.ValidID(broker.RequestPrefix, id) || approval.CheckDigest(digest) != nil {
			return nil, broker.E(broker.Invalid, "The form names a request that its page did not show. Reload the page and send it again.", nil)
		}
		ds = append(ds, passkey.Decision{Request: id, Choice: choice, Digest: digest})
	}
	return ds, nil
}

// batchChallenge returns what the passkey signs to approve the selected requests.
func (ps *Pages) batchChallenge(c echo.Context, v *session.Visit) error {
	ds, err := decisionsOf(c.QueryParams()[fieldOf], proof.ChoiceApprove)
	if err != nil {
		return err
	}
	if len(ds) == 0 {
		return approval.CheckBatch(nil)
	}
	for _, d := range ds {
		if _, err := ps.toSign(c, v, d); err != nil {
			return err
		}
	}
	return ps.proofs.Ask(c, v, ds)
}

// batchAgain redirects to the identity provider, which returns to the group.
func (ps *Pages) batchAgain(c echo.Context, v *session.Visit) error {
	return ps.proofs.SignInAgain(c, v, batchLink(c.QueryParams()["id"]), "")
}

// decideBatch approves or denies the selected requests. Denying works while the LiveStore is
// unavailable.
func (ps *Pages) decideBatch(c echo.Context) error {
	if err := ps.shell.Ours(c.Request()); err != nil {
		return err
	}
	v, err := ps.shell.Visit(c)
	if err != nil {
		return err
	}
	form := c.Request().PostForm
	verdict := broker.Verdict{Approve: form.Get("deny") == ""}
	if err := ps.shell.Gate(c, v, !verdict.Approve); err != nil {
		return err
	}
	choice := proof.ChoiceApprove
	if !verdict.Approve {
		choice = proof.ChoiceDeny
		verdict.Code, verdict.Note = broker.DenyCode(form.Get("code")), form.Get("note")
	}
	ds, err := decisionsOf(form[fieldOf], choice)
	if err != nil {
		return err
	}
	var rs []broker.Request
	for _, d := range ds {
		r, err := ps.b.Request(c.Request().Context(), v.Principal, d.Request)
		if err == nil {
			err = broker.MayDecide(v.Principal, r)
		}
		if err != nil {
			return err
		}
		rs = append(rs, r)
	}
	items, page, err := ps.itemsOf(v, form.Get("seen"), ds)
	if err != nil {
		return err
	}
	redraw := func(status int, problem string, wrong map[string]string) error {
		rs, err := ps.batchOf(c, v, page)
		if err != nil {
			return err
		}
		in := typed{Code: form.Get("code"), Note: form.Get("note")}
		return ps.drawBatch(c, v, status, rs, batchPage{Typed: in, Problem: problem, Wrong: wrong}, form[fieldOf]...)
	}
	if len(ds) == 0 {
		return redraw(http.StatusUnprocessableEntity, "Select at least one request.", nil)
	}
	if wrong := wrongDenial(verdict); len(wrong) > 0 {
		return redraw(http.StatusUnprocessableEntity, "", wrong)
	}
	if err := approval.CheckBatch(rs); err != nil {
		return err
	}
	if err := ps.proofs.StepUp(c, v, rs[0].Level(), newest(rs), &verdict, ds...); err != nil {
		e := broker.AsError(err)
		ev := web.EventOf(c)
		ev.Kind, ev.Cause = e.Kind, e.Cause
		return redraw(web.Lookup(e.Kind).Status, e.Public, nil)
	}
	out, err := ps.b.DecideBatch(c.Request().Context(), v.Principal, items, verdict)
	if err != nil {
		return err
	}
	return ps.drawOutcomes(c, v, out, verdict.Approve)
}

// wrongDenial returns the problems of a denial by form field.
func wrongDenial(v broker.Verdict) map[string]string {
	wrong := map[string]string{}
	if !v.Approve && !slices.ContainsFunc(codes, func(c code) bool { return c.Code == v.Code }) {
		wrong["code"] = "Choose a reason."
	}
	if utf8.RuneCountInString(v.Note) > 500 {
		wrong["note"] = "At most 500 characters."
	}
	return wrong
}

// itemsOf returns the selected requests with the snapshots of the page, and the ids of all requests
// on the page. It refuses a request or a digest that the page did not show to this person.
func (ps *Pages) itemsOf(v *session.Visit, seen string, ds []passkey.Decision) (items []approval.Shown, page []string, err error) {
	raw, err := ps.unseal(seen, approval.MaxBatch*approval.MaxSnapshot)
	var parts []json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &parts)
	}
	unread := "The snapshot of the page that you saw cannot be read any more. Reload the page and send your answer again."
	if err != nil {
		return nil, nil, broker.E(broker.Conflict, unread, err)
	}
	known := map[passkey.Decision]approval.Shown{}
	for _, part := range parts {
		var sh shown
		if err := json.Unmarshal(part, &sh); err != nil || sh.For != v.ID {
			return nil, nil, broker.E(broker.Conflict, unread, err)
		}
		page = append(page, sh.Request)
		known[passkey.Decision{Request: sh.Request, Digest: sh.Digest}] = approval.Shown{ID: sh.Request, Digest: sh.Digest, Snapshot: string(part), ShownAt: sh.At}
	}
	for _, d := range ds {
		item, is := known[passkey.Decision{Request: d.Request, Digest: d.Digest}]
		if !is {
			return nil, nil, broker.E(broker.Invalid, "The form names a request that its page did not show. Reload the page and send it again.", nil)
		}
		items = append(items, item)
	}
	return items, page, nil
}

// outcomesPage is the result of a batch decision.
type outcomesPage struct {
	Says   string
	Rows   []historyRow
	Next   string // id of the next request that waits for the visitor; "" = none
	NextOf string // number of the requests that wait for the visitor
	Draft  []string
}

// drawOutcomes shows which requests were decided, and for each of the others why it was not.
func (ps *Pages) drawOutcomes(c echo.Context, v *session.Visit, out []approval.Outcome, approved bool) error {
	vw, word := ps.shell.View(c, v, shell.Frame{}, nil), "denied"
	if approved {
		word = "approved"
	}
	page, n, status := outcomesPage{}, 0, http.StatusOK
	var decided []broker.Request
	for _, o := range out {
		decided = append(decided, o.Request)
		row := ps.outcomeOf(o.Request, v.Now)
		switch {
		case o.Counts && o.Err != nil:
			row.Tone, row.Detail = "warn", broker.AsError(o.Err).Public
			n++
		case !o.Counts:
			row.Word, row.Tone, row.Detail = "not decided by you", "bad", broker.AsError(o.Err).Public
			switch now, err := ps.b.Request(c.Request().Context(), v.Principal, o.ID); {
			case err != nil || now.State == broker.RequestPending:
			case answered(vw, now): // the visitor has voted before
				row.Word, row.Tone = string(now.State), "warn"
			case broker.AsError(o.Err).Kind != broker.Unavailable: // Unavailable: the end of a task is not recorded everywhere yet
				row.Detail = whyNot(vw, now)
			}
			status = web.Lookup(broker.AsError(o.Err).Kind).Status
		case o.State == broker.RequestPending:
			row.Word, row.Tone, row.Detail = "you approved it", "warn", "it waits for another approver"
			n++
		default:
			n++
		}
		page.Rows = append(page.Rows, row)
	}
	if n > 0 {
		status = http.StatusOK
	}
	page.Says = fmt.Sprintf("You %s %d of %d requests", word, n, len(out))
	if n == len(out) {
		page.Says = fmt.Sprintf("You %s %d requests", word, n)
		if n == 1 {
			page.Says = "You " + word + " 1 request"
		}
	}
	page.Next, page.NextOf = ps.next(c, v)
	if approved && n == len(out) {
		page.Draft = drafting(v, decided...)
	}
	return ps.shell.Draw(c, status, v, "outcomes", shell.Frame{Title: page.Says, Nav: "/queue"}, page)
}
