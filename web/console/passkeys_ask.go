package console

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/people"
	"ebb/web/console/passkey"
)

// Challenge is where the script of a form gets what the passkey is to sign; "" when this
// person has none, or none is asked for here.
func (v view) Challenge(request, choice, digest string) (string, error) {
	return v.challengeAt("/requests/"+url.PathEscape(request), choice, digest)
}

// ChallengeForDraft is the same for publishing a draft of policies.
func (v view) ChallengeForDraft(id, digest string) (string, error) {
	return v.challengeAt("/policy/drafts/"+url.PathEscape(id), choicePublish, digest)
}

func (v view) challengeAt(page, choice, digest string) (string, error) {
	if v.s.keys == nil {
		return "", nil
	}
	have, err := v.s.passkeys(context.Background(), v.Who)
	if err != nil || len(have) == 0 {
		return "", err
	}
	return v.Base + page + "/challenge?" + url.Values{"choice": {choice}, "digest": {digest}}.Encode(), nil
}

// challenge is what the passkey is to sign for one answer: of a smaller yes also the scope
// and the time, as the form has them at this moment.
func (s *Console) challenge(c echo.Context, v *visit) error {
	q := c.QueryParams()
	d := passkey.Decision{Request: c.Param("id"), Choice: q.Get("choice"), Digest: q.Get("digest")}
	r, err := s.toSign(c, v, d)
	if err != nil {
		return err
	}
	if d.Choice == choiceNarrow {
		in, problems := typed{Scope: q.Get("scope"), Minutes: q.Get("minutes")}, map[string]string{}
		if part := q.Get("part"); part != "" {
			in.Scope = part
		}
		set, ttl := narrower(r, in, problems)
		if len(problems) > 0 {
			return broker.E(broker.Invalid, "There is no smaller yes to sign: send the form, and it says what it lacks.", nil)
		}
		d.Scope, d.TTL = set.String(), int64(ttl)
	}
	return s.ask(c, v, []passkey.Decision{d})
}

// challengeForDraft is the same for publishing, of who may publish.
func (s *Console) challengeForDraft(c echo.Context, v *visit) error {
	d, err := s.b.PolicyDraft(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	if err := s.b.MayPublish(v.Principal, d); err != nil {
		return err
	}
	return s.ask(c, v, []passkey.Decision{{Request: d.ID, Choice: choicePublish, Digest: c.QueryParam("digest")}})
}

// toSign is the request of an answer, of who may give it.
func (s *Console) toSign(c echo.Context, v *visit, d passkey.Decision) (broker.Request, error) {
	if s.keys == nil {
		return broker.Request{}, broker.E(broker.NotFound, "There are no passkeys at this address.", nil)
	}
	r, err := s.b.Request(c.Request().Context(), v.Principal, d.Request)
	if err != nil {
		return r, err
	}
	return r, s.mayDecide(c, v, r, d.Choice)
}

// ask answers with what the passkey is to sign for one answer.
func (s *Console) ask(c echo.Context, v *visit, ds []passkey.Decision) error {
	if s.keys == nil {
		return broker.E(broker.NotFound, "There are no passkeys at this address.", nil)
	}
	ctx := c.Request().Context()
	have, err := s.passkeys(ctx, v)
	if err != nil {
		return err
	}
	options, state, err := s.keys.Ask(passkey.Together(ds), v.ID, v.session.ID, have)
	if err != nil {
		return broker.E(broker.NotFound, "You have no passkey.", err)
	}
	return c.JSON(http.StatusOK, ceremony{options, state})
}

// proved judges the assertion that came with the form of one answer, and keeps it in the
// verdict. It counts once.
func (s *Console) proved(c echo.Context, v *visit, ds []passkey.Decision, out *broker.Verdict) error {
	if s.keys == nil {
		return broker.E(broker.Invalid, "There are no passkeys at this address.", nil)
	}
	if v.session.Method != methodLink && v.now.Sub(v.session.GroupsAt) > groupsFor {
		return broker.E(broker.Forbidden, "Your groups were read more than 15 minutes ago. Sign in again, then send this form.", nil)
	}
	ctx, form := c.Request().Context(), c.Request().PostForm
	have, err := s.passkeys(ctx, v)
	if err != nil {
		return err
	}
	p, count, once, err := s.keys.Proved(passkey.Together(ds), v.ID, v.session.ID, form.Get("state"), have, []byte(form.Get("assertion")))
	if err != nil {
		return broker.E(broker.Forbidden, "The passkey did not prove this answer to this request on these facts. Send the form again.", err)
	}
	if err := s.b.Once(ctx, "passkey:"+once, v.now.Add(2*passkey.Lifetime)); err != nil {
		return err
	}
	switch err := s.cfg.Passkeys.UsePasskey(ctx, v.ID, p.Key, count, v.now); {
	case errors.Is(err, people.ErrCounted), errors.Is(err, people.ErrNoPasskey):
		return broker.E(broker.Forbidden, "The passkey counts backwards, or was removed: a copy of it may be in use. Remove it in the settings.", err)
	case err != nil:
		return broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	if len(ds) > 1 {
		p.Of = ds
	}
	raw, err := json.Marshal(p)
	out.Proof, out.Choice, out.Passkey = string(raw), ds[0].Choice, hex.EncodeToString(p.Key)
	return err
}
