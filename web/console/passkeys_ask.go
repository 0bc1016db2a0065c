package console

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

// Challenge returns the URL from which the form's script gets the passkey
// challenge. It returns "" when the person has no passkey, or the console has
// none.
func (v view) Challenge(request, choice, digest string) (string, error) {
	return v.challengeAt("/requests/"+url.PathEscape(request), choice, digest)
}

// ChallengeForDraft is Challenge for publishing a draft of policies.
func (v view) ChallengeForDraft(id, digest string) (string, error) {
	return v.challengeAt("/policy/drafts/"+url.PathEscape(id), choicePublish, digest)
}

func (v view) challengeAt(page, choice, digest string) (string, error) {
	if v.s.keys == nil {
		return "", nil
	}
	have, err := v.s.visits.passkeys(context.Background(), v.Who)
	if err != nil || len(have) == 0 {
		return "", err
	}
	return v.Base + page + "/challenge?" + url.Values{"choice": {choice}, "digest": {digest}}.Encode(), nil
}

// challenge returns what the passkey signs for one answer. For a narrowed
// approval it contains the scope and lifetime that the form has at this moment.
func (vs *visits) challenge(c echo.Context, v *visit) error {
	q := c.QueryParams()
	d := passkey.Decision{Request: c.Param("id"), Choice: q.Get("choice"), Digest: q.Get("digest")}
	r, err := vs.toSign(c, v, d)
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
			return broker.E(broker.Invalid, "The narrowed approval is not valid, so there is nothing to sign. Send the form; the page then shows the errors.", nil)
		}
		d.Scope, d.TTL = set.String(), int64(ttl)
	}
	return vs.ask(c, v, []passkey.Decision{d})
}

// challengeForDraft is challenge for publishing. The visitor must be allowed to
// publish.
func (vs *visits) challengeForDraft(c echo.Context, v *visit) error {
	d, err := vs.b.PolicyDraft(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	if err := vs.b.MayPublish(v.Principal, d); err != nil {
		return err
	}
	return vs.ask(c, v, []passkey.Decision{{Request: d.ID, Choice: choicePublish, Digest: c.QueryParam("digest")}})
}

// toSign returns the request of an answer, if the visitor may give that answer.
func (vs *visits) toSign(c echo.Context, v *visit, d passkey.Decision) (broker.Request, error) {
	if vs.keys == nil {
		return broker.Request{}, broker.E(broker.NotFound, "Passkeys are not available: the console is at an IP address. Set public_url to a host name.", nil)
	}
	r, err := vs.b.Request(c.Request().Context(), v.Principal, d.Request)
	if err != nil {
		return r, err
	}
	return r, vs.requests.mayDecide(c, v, r, d.Choice)
}

// ask sends the passkey challenge for the answers, which are signed together.
func (vs *visits) ask(c echo.Context, v *visit, ds []passkey.Decision) error {
	if vs.keys == nil {
		return broker.E(broker.NotFound, "Passkeys are not available: the console is at an IP address. Set public_url to a host name.", nil)
	}
	ctx := c.Request().Context()
	have, err := vs.passkeys(ctx, v)
	if err != nil {
		return err
	}
	options, state, err := vs.keys.Ask(passkey.Together(ds), v.ID, v.session.ID, have)
	if err != nil {
		return broker.E(broker.NotFound, "You have no passkey.", err)
	}
	return c.JSON(http.StatusOK, ceremony{options, state})
}

// proved verifies the passkey assertion in the form and stores the proof in the
// verdict. Each assertion is accepted once.
func (vs *visits) proved(c echo.Context, v *visit, ds []passkey.Decision, out *broker.Verdict) error {
	if vs.keys == nil {
		return broker.E(broker.Invalid, "Passkeys are not available: the console is at an IP address. Set public_url to a host name.", nil)
	}
	if v.session.Method != methodLink && v.now.Sub(v.session.GroupsAt) > groupsFor {
		return broker.E(broker.Forbidden, "Your groups were read more than 15 minutes ago. Sign in again, then send this form.", nil)
	}
	ctx, form := c.Request().Context(), c.Request().PostForm
	have, err := vs.passkeys(ctx, v)
	if err != nil {
		return err
	}
	p, count, once, err := vs.keys.Proved(passkey.Together(ds), v.ID, v.session.ID, form.Get("state"), have, []byte(form.Get("assertion")))
	if err != nil {
		return broker.E(broker.Forbidden, "The passkey assertion is not valid for this answer. Send the form again.", err)
	}
	if err := vs.b.Once(ctx, "passkey:"+once, v.now.Add(2*passkey.Lifetime)); err != nil {
		return err
	}
	switch err := vs.passkeyStore.UsePasskey(ctx, v.ID, p.Key, count, v.now); {
	case errors.Is(err, people.ErrCounted), errors.Is(err, people.ErrNoPasskey):
		return broker.E(broker.Forbidden, "The passkey was removed, or its signature counter went backwards: a copy of it may be in use. Remove it in the settings.", err)
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
