package notifier

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/notify"
	"ebb/broker/risk"
)

// Prefixes of kinds of entries.
const (
	breakGlass = "breakglass."
	policies   = "policy."
	drafts     = "policy.draft"
)

// self is the actor of what the broker does by itself.
const self = "ebb"

func (n *Notifier) request(ctx context.Context, id string) (r broker.Request, found bool, err error) {
	rs, err := n.cfg.Desk.Requests(ctx, broker.RequestFilter{IDs: []string{id}})
	if err != nil || len(rs) != 1 {
		return r, false, err
	}
	return rs[0], true, nil
}

func waits(r broker.Request, now time.Time) bool {
	return r.State == broker.RequestPending && r.ExpiresAt.After(now)
}

// noticeOf is what may be told of a request. It takes nothing that an agent wrote: of facts
// that cannot be read it says the worst.
func noticeOf(r broker.Request, e notify.Event) notify.Notice {
	n := notify.Notice{
		Event: e, Subject: r.ID, Title: risk.TitleOf(r.Scopes, r.Provider).String(), Risk: string(risk.High), TaskID: r.TaskID, Owner: r.Owner,
		Match: broker.MatchCode(r.ID), Until: r.ExpiresAt, Path: "/requests/" + url.PathEscape(r.ID),
	}
	f, err := r.Sheet()
	if err != nil || f.Risk == nil {
		return n
	}
	n.Risk, n.TaskName = string(f.Risk.Level), f.TaskName
	for _, reason := range f.Risk.Top() {
		n.Reasons = append(n.Reasons, reason.Text)
	}
	return n
}

// endings are the entries about the end of a request.
var endings = map[string]notify.Event{
	audit.RequestApproved: notify.Approved, audit.RequestDenied: notify.Denied, audit.RequestExpired: notify.Expired, audit.RequestWithdrawn: notify.Withdrawn,
}

// pausedOf is what is told of a task that the broker has paused by itself.
func pausedOf(t broker.Task, e audit.Entry) notify.Notice {
	return notify.Notice{
		Event: notify.TaskPaused, Subject: entryID(e), Title: "ebb has paused it: nothing mints until somebody resumes it", Reasons: []string{t.Reason},
		TaskID: t.ID, TaskName: t.Name, Owner: t.Owner, Path: "/tasks/" + url.PathEscape(t.ID),
	}
}

// happening is what is told of another entry of the record: that it is there, and of whom.
func happening(e audit.Entry) (notify.Notice, bool) {
	n := notify.Notice{Subject: entryID(e), By: e.Actor, TaskID: e.TaskID, Path: fmt.Sprintf("/audit/%s/%d", url.PathEscape(e.Writer), e.Seq)}
	switch {
	case strings.HasPrefix(e.Kind, breakGlass):
		n.Event = notify.BreakGlass
		var data struct {
			ID       string `json:"break_glass"`
			Incident string `json:"incident"`
		}
		if json.Unmarshal(e.Data, &data) == nil && data.ID != "" { // approvers read that page, and not the record
			n.Path, n.Reasons = "/break-glass/"+url.PathEscape(data.ID), []string{"incident " + data.Incident}
		}
	case strings.HasPrefix(e.Kind, drafts):
		n.Event = notify.Draft
		var data struct {
			Draft string `json:"draft"`
		}
		if json.Unmarshal(e.Data, &data) == nil && data.Draft != "" {
			n.Subject = data.Draft // it is told once, however often it is changed
		}
	default:
		return n, false
	}
	n.Title = e.Kind // the record's own word, of a closed set
	return n, true
}

func entryID(e audit.Entry) string { return e.Writer + "/" + strconv.FormatInt(e.Seq, 10) }
