package requests

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// batchPath is the path of the page for batch decisions.
const batchPath = "/batch"

// batchPage is a few requests of one task, each with its facts, and one
// form.
type batchPage struct {
	Items   []batchItem
	Task    string
	Proof   proof.Demand
	Ask     string // URL of the passkey challenge; "" = no passkey is needed
	Off     string // why the batch cannot be approved
	Problem string
}

type batchItem struct {
	Shown  shown
	Sealed string
	N      int
	Left   time.Time
	Why    string // why this request cannot be approved
}

func batchLink(ids []string) string { return batchPath + "?" + url.Values{"id": ids}.Encode() }

// batchOf loads the requests of a batch, in the given order.
func (ps *Pages) batchOf(c echo.Context, v *session.Visit, ids []string) ([]broker.Request, error) {
	if len(ids) > approval.MaxBatch {
		return nil, broker.E(broker.Invalid, "A batch must have 2 to 5 requests.", nil)
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
	return ps.drawBatch(c, v, http.StatusOK, rs, "")
}

func (ps *Pages) drawBatch(c echo.Context, v *session.Visit, status int, rs []broker.Request, problem string) error {
	vw := ps.shell.View(c, v, shell.Frame{}, nil)
	page := batchPage{Task: rs[0].TaskID, Problem: problem}
	worst, newest := stakes(rs)
	ask := url.Values{}
	for i, r := range rs {
		item := batchItem{Shown: ps.show(vw, r, nil), N: i + 1, Left: r.ExpiresAt}
		if item.Why = whyNot(vw, r); item.Why == "" {
			item.Why, _ = ps.off(c, v, r, item.Shown)
		}
		if item.Why != "" {
			page.Off = "One of these requests cannot be approved at the moment, so the batch cannot be approved."
		}
		var err error
		if item.Sealed, err = ps.sealShown(item.Shown); err != nil {
			return err
		}
		ask.Add("id", r.ID)
		ask.Add("digest", r.Digest)
		page.Items = append(page.Items, item)
	}
	var err error
	if page.Proof, err = ps.proofs.Demand(c, v, worst, newest); err != nil {
		return err
	}
	if page.Proof.Key() {
		page.Ask = ps.shell.Base() + batchPath + "/challenge?" + ask.Encode()
	}
	return ps.shell.Draw(c, status, v, "batch", shell.Frame{Title: fmt.Sprintf("%d requests of one task", len(rs)), Nav: "/queue"}, page)
}

// stakes returns the highest risk and the newest time of the requests. The
// proof of a batch decision must satisfy both.
func stakes(rs []broker.Request) (worst risk.Level, newest time.Time) {
	worst = risk.Low
	for _, r := range rs {
		if l := r.Level(); l.Rank() > worst.Rank() {
			worst = l
		}
		if r.CreatedAt.After(newest) {
			newest = r.CreatedAt
		}
	}
	return worst, newest
}

func (ps *Pages) batchChallenge(c echo.Context, v *session.Visit) error {
	q := c.QueryParams()
	ds, err := decisionsOf(q["id"], q["digest"])
	if err != nil {
		return err
	}
	for _, d := range ds {
		if _, err := ps.toSign(c, v, d); err != nil {
			return err
		}
	}
	return ps.proofs.Ask(c, v, ds)
}

// decisionsOf returns the decisions of a batch, in the order of the form.
func decisionsOf(ids, digests []string) ([]passkey.Decision, error) {
	if len(ids) != len(digests) || len(ids) < 2 || len(ids) > approval.MaxBatch {
		return nil, broker.E(broker.Invalid, "A batch must have 2 to 5 requests, each with the digest of its facts.", nil)
	}
	var ds []passkey.Decision
	for i, id := range ids {
		ds = append(ds, passkey.Decision{Request: id, Choice: proof.ChoiceApprove, Digest: digests[i]})
	}
	return ds, nil
}

// approveBatch approves all requests of the form, in its order, or none of
// them.
func (ps *Pages) approveBatch(c echo.Context, v *session.Visit) error {
	form := c.Request().PostForm
	ids, digests, seen := form["id[]"], form["digest[]"], form["seen[]"]
	ds, err := decisionsOf(ids, digests)
	if err != nil {
		return err
	}
	if len(seen) != len(ids) {
		return broker.E(broker.Invalid, "The form lacks a page snapshot for each request. Reload the page and send it again.", nil)
	}
	for _, id := range ids {
		r, err := ps.b.Request(c.Request().Context(), v.Principal, id)
		if err == nil {
			err = broker.MayDecide(v.Principal, r)
		}
		if err != nil {
			return err
		}
	}
	rs, err := ps.batchOf(c, v, ids)
	if err != nil {
		return err
	}
	redraw := func(err error) error {
		e := broker.AsError(err)
		ev := web.EventOf(c)
		ev.Kind, ev.Cause = e.Kind, e.Cause
		if now, nerr := ps.batchOf(c, v, ids); nerr == nil {
			rs = now
		}
		text := e.Public
		if errors.Is(err, broker.ErrStale) {
			text = "The facts of one of these requests have changed. Nothing was granted. Review each request again."
		}
		return ps.drawBatch(c, v, web.Lookup(e.Kind).Status, rs, text)
	}
	items := make([]approval.Shown, len(ids))
	for i, r := range rs {
		sh, raw, err := ps.openShown(v, r.ID, seen[i])
		if err != nil || sh.Digest != digests[i] {
			return redraw(broker.E(broker.Conflict, "The snapshot of the page that you saw cannot be read any more. Reload the page and send your answer again.", err))
		}
		items[i] = approval.Shown{ID: r.ID, Digest: digests[i], Snapshot: raw}
	}
	worst, newest := stakes(rs)
	var proof broker.Verdict
	if err := ps.proofs.StepUp(c, v, worst, newest, &proof, ds...); err != nil {
		return redraw(err)
	}
	if _, err := ps.b.ApproveBatch(c.Request().Context(), v.Principal, items, proof); err != nil {
		return redraw(err)
	}
	return ps.shell.Redirect(c, "/queue")
}
