package notifier

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/risk"
)

// Prefixes of the kinds of audit entries.
const (
	breakGlass = "breakglass."
	policies   = "policy."
	drafts     = "policy.draft"
)

// self is the actor of entries that the broker writes on its own.
const self = "ebb"

func (n *Notifier) request(ctx context.Context, id string) (r broker.Request, found bool, err error) {
	rs, err := n.cfg.ApprovalStore.Requests(ctx, broker.RequestFilter{IDs: []string{id}})
	if err != nil || len(rs) != 1 {
		return r, false, err
	}
	return rs[0], true, nil
}

func waits(r broker.Request, now time.Time) bool {
	return r.State == broker.RequestPending && r.ExpiresAt.After(now)
}

// noticeOf returns the notice of a request. Of the agent's texts it uses only the names of the objects
// that the request is about. If the facts cannot be read, the notice states the highest risk.
func noticeOf(r broker.Request, e notify.Event) notify.Notice {
	n := notify.Notice{
		Event: e, Subject: r.ID, Title: risk.TitleOf(r.Scopes, r.Provider).String(), Risk: string(risk.High), TaskID: r.TaskID, Owner: r.Owner,
		Match: broker.MatchCode(r.ID), Until: r.ExpiresAt, Path: "/requests/" + url.PathEscape(r.ID),
	}
	f, err := r.Sheet()
	if err != nil || f.Risk == nil {
		return n
	}
	n.Risk, n.TaskName, n.Only = string(f.Risk.Level), f.TaskName, onlyThis(f.Content)
	for _, reason := range f.Risk.Top() {
		n.Reasons = append(n.Reasons, reason.Text)
	}
	return n
}

// onlyThis returns a line for each of the first operations of the one request that the approval would
// be for. It leaves out their details, such as the title of an issue, which can be any text. It returns
// no line for an SQL text, because its approval is for a scope, too.
func onlyThis(c *content.Facts) (out []string) {
	if c == nil || c.NeedsPeople() {
		return nil
	}
	ordered := c.Ordered()
	for _, o := range ordered[:min(len(ordered), notify.MaxOnly)] {
		line, _ := c.Title(o)
		if o.Amount != "" {
			line += ": " + o.Amount
		}
		out = append(out, line)
	}
	if more := len(ordered) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// outcomeOf returns the notice of a request that has ended: its result and the people who decided it.
func outcomeOf(r broker.Request, e audit.Entry) notify.Notice {
	n := noticeOf(r, endings[e.Kind])
	n.Until, n.Code = time.Time{}, string(r.Code)
	var by []string
	for _, v := range r.Votes {
		if (n.Event == notify.Approved && v.Approve) || (n.Event == notify.Denied && !v.Approve) {
			by = append(by, v.By)
		}
	}
	n.By = strings.Join(by, ", ")
	if n.Event == notify.Approved && r.Granted.String() != r.Scopes.String() {
		n.Granted = r.Granted.String()
	}
	return n
}

// endings maps the entries that end a request to their events.
var endings = map[string]notify.Event{
	audit.RequestApproved: notify.Approved, audit.RequestDenied: notify.Denied, audit.RequestExpired: notify.Expired, audit.RequestWithdrawn: notify.Withdrawn,
}

// pausedOf returns the notice of a task that the broker paused on its own.
func pausedOf(t broker.Task, e audit.Entry) notify.Notice {
	return notify.Notice{
		Event: notify.TaskPaused, Subject: entryID(e), Title: "ebb has paused it: no credential is issued until a person resumes it", Reasons: []string{t.Reason},
		TaskID: t.ID, TaskName: t.Name, Owner: t.Owner, Path: "/tasks/" + url.PathEscape(t.ID),
	}
}

// happening returns the notice of any other entry: its kind and its task.
func happening(e audit.Entry) (notify.Notice, bool) {
	n := notify.Notice{Subject: entryID(e), By: e.Actor, TaskID: e.TaskID, Path: fmt.Sprintf("/audit/%s/%d", url.PathEscape(e.Writer), e.Seq)}
	var data struct {
		ID       string `json:"break_glass"`
		Incident string `json:"incident"`
		Draft    string `json:"draft"`
	}
	_ = json.Unmarshal(e.Data, &data) // an entry without data has none of them
	switch {
	case strings.HasPrefix(e.Kind, breakGlass):
		n.Event = notify.BreakGlass
		if data.ID != "" { // approvers may read that page, but not the audit log
			n.Path, n.Reasons = "/break-glass/"+url.PathEscape(data.ID), []string{"incident " + data.Incident}
		}
	case strings.HasPrefix(e.Kind, drafts):
		n.Event = notify.Draft
		if data.Draft != "" {
			n.Subject = data.Draft // one notice for a draft, however often it changes
		}
	default:
		return n, false
	}
	n.Title = e.Kind // the kind of the entry, from a closed set
	return n, true
}

func entryID(e audit.Entry) string { return e.Writer + "/" + strconv.FormatInt(e.Seq, 10) }
