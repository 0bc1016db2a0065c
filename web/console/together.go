package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/risk"
	"ebb/web"
	"ebb/web/console/passkey"
)

// togetherPath is the page on which several requests of one task get one answer.
const togetherPath = "/together"

// togetherPage is a few requests, each with its facts, and one form.
type togetherPage struct {
	Items   []togetherItem
	Task    string
	Proof   proofState
	Ask     string // where the script gets what the passkey signs; "" = none is asked for
	Off     string // why nothing can be approved
	Problem string
}

type togetherItem struct {
	Shown  shown
	Sealed string
	N      int
	Left   time.Time
	Why    string // why this one cannot be approved
}

func together(ids []string) string { return togetherPath + "?" + url.Values{"id": ids}.Encode() }

// togetherOf loads what is decided together, in the order in which it is named.
func (s *Console) togetherOf(c echo.Context, v *visit, ids []string) ([]broker.Request, error) {
	if len(ids) > broker.MaxTogether {
		return nil, broker.E(broker.Invalid, "Two to five requests are approved together.", nil)
	}
	var rs []broker.Request
	for _, id := range ids {
		r, err := s.b.Request(c.Request().Context(), v.Principal, id)
		if err != nil {
			return nil, err
		}
		rs = append(rs, r)
	}
	return rs, broker.Together(rs)
}

func (s *Console) together(c echo.Context, v *visit) error {
	rs, err := s.togetherOf(c, v, c.QueryParams()["id"])
	if err != nil {
		return err
	}
	return s.drawTogether(c, v, http.StatusOK, rs, "")
}

func (s *Console) drawTogether(c echo.Context, v *visit, status int, rs []broker.Request, problem string) error {
	vw := s.view(c, v, frame{}, nil)
	page := togetherPage{Task: rs[0].TaskID, Problem: problem}
	worst, newest := stakes(rs)
	ask := url.Values{}
	for i, r := range rs {
		item := togetherItem{Shown: s.show(vw, r, nil), N: i + 1, Left: r.ExpiresAt}
		if item.Why = whyNot(vw, r); item.Why == "" {
			item.Why, _ = s.off(c, v, r, item.Shown)
		}
		if item.Why != "" {
			page.Off = "One of these cannot be approved at the moment, so that none is."
		}
		var err error
		if item.Sealed, err = s.sealShown(item.Shown); err != nil {
			return err
		}
		ask.Add("id", r.ID)
		ask.Add("digest", r.Digest)
		page.Items = append(page.Items, item)
	}
	var err error
	if page.Proof, err = s.proofOf(c, v, worst, newest); err != nil {
		return err
	}
	if page.Proof.Key() {
		page.Ask = s.mux.Base() + togetherPath + "/challenge?" + ask.Encode()
	}
	return s.draw(c, status, v, "together", frame{Title: fmt.Sprintf("%d requests of one task", len(rs)), Nav: "/queue"}, page)
}

// stakes are what the proof of one answer to several has to be good for: the worst of
// them, and the newest.
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

func (s *Console) togetherChallenge(c echo.Context, v *visit) error {
	q := c.QueryParams()
	ds, err := decisionsOf(q["id"], q["digest"])
	if err != nil {
		return err
	}
	for _, d := range ds {
		if _, err := s.toSign(c, v, d); err != nil {
			return err
		}
	}
	return s.ask(c, v, ds)
}

// decisionsOf are the decisions of one answer, in the order of the form.
func decisionsOf(ids, digests []string) ([]passkey.Decision, error) {
	if len(ids) != len(digests) || len(ids) < 2 || len(ids) > broker.MaxTogether {
		return nil, broker.E(broker.Invalid, "Two to five requests are approved together, each with the digest of its facts.", nil)
	}
	var ds []passkey.Decision
	for i, id := range ids {
		ds = append(ds, passkey.Decision{Request: id, Choice: choiceApprove, Digest: digests[i]})
	}
	return ds, nil
}

// approveTogether is one yes to all that the form names, in its order, or to none.
func (s *Console) approveTogether(c echo.Context, v *visit) error {
	form := c.Request().PostForm
	ids, digests, seen := form["id[]"], form["digest[]"], form["seen[]"]
	ds, err := decisionsOf(ids, digests)
	if err != nil {
		return err
	}
	if len(seen) != len(ids) {
		return broker.E(broker.Invalid, "The form cannot be read.", nil)
	}
	for _, id := range ids {
		r, err := s.b.Request(c.Request().Context(), v.Principal, id)
		if err == nil {
			err = broker.MayDecide(v.Principal, r)
		}
		if err != nil {
			return err
		}
	}
	rs, err := s.togetherOf(c, v, ids)
	if err != nil {
		return err
	}
	redraw := func(err error) error {
		e := broker.AsError(err)
		ev := web.EventOf(c)
		ev.Kind, ev.Cause = e.Kind, e.Cause
		if now, nerr := s.togetherOf(c, v, ids); nerr == nil {
			rs = now
		}
		text := e.Public
		if errors.Is(err, broker.ErrStale) {
			text = "The facts of one of these have changed. Nothing was granted; look at each again."
		}
		return s.drawTogether(c, v, web.Lookup(e.Kind).Status, rs, text)
	}
	items := make([]broker.Shown, len(ids))
	for i, r := range rs {
		sh, raw, err := s.openShown(v, r.ID, seen[i])
		if err != nil || sh.Digest != digests[i] {
			return redraw(broker.E(broker.Conflict, "What your page showed cannot be read any more. Look again, and send it once more.", err))
		}
		items[i] = broker.Shown{ID: r.ID, Digest: digests[i], Seen: raw}
	}
	worst, newest := stakes(rs)
	var proof broker.Verdict
	if err := s.stepUp(c, v, worst, newest, &proof, ds...); err != nil {
		return redraw(err)
	}
	if _, err := s.b.ApproveTogether(c.Request().Context(), v.Principal, items, proof); err != nil {
		return redraw(err)
	}
	return s.redirect(c, "/queue")
}
