package console

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/people"
	"ebb/web/console/passkey"
)

func (s *Console) passkeys(ctx context.Context, v *visit) ([]people.Passkey, error) {
	list, err := s.cfg.Passkeys.Passkeys(ctx, v.ID)
	if err != nil {
		return nil, broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	return list, nil
}

// mayChange refuses who has not proved lately who they are, as strongly as a decision
// needs: a passkey is that proof later, and else who finds an open browser, or has only a
// password, could make one of their own.
func (s *Console) mayChange(v *visit) error {
	switch {
	case s.keys == nil:
		return broker.E(broker.Invalid, "A passkey belongs to a host name, and this console is at an address: give ebb a name with public_url.", nil)
	case !s.fresh(v):
		return broker.E(broker.Forbidden, "To add or rename a passkey, you must have proved who you are within the last 10 minutes, as strongly as this ebb asks. Do it again by the link in the settings.", nil)
	}
	return nil
}

// ceremony is what a script hands to the browser, and what its form carries back.
type ceremony struct {
	Options json.RawMessage `json:"options"`
	State   string          `json:"state"`
}

func (s *Console) registerOptions(c echo.Context, v *visit) error {
	if err := s.mayChange(v); err != nil {
		return err
	}
	have, err := s.passkeys(c.Request().Context(), v)
	if err != nil {
		return err
	}
	options, state, err := s.keys.Register(v.ID, v.session.Name, v.session.ID, have)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, ceremony{options, state})
}

func (s *Console) addPasskey(c echo.Context, v *visit) error {
	if err := s.mayChange(v); err != nil {
		return err
	}
	ctx, form := c.Request().Context(), c.Request().PostForm
	have, err := s.passkeys(ctx, v)
	if err != nil {
		return err
	}
	name, err := passkeyName(form.Get("name"))
	if err != nil {
		return err
	}
	if len(have) >= people.MaxPasskeys {
		return broker.E(broker.Invalid, "You have 20 passkeys. Remove one first.", nil)
	}
	key, err := s.keys.Registered(v.ID, v.session.Name, v.session.ID, form.Get("state"), []byte(form.Get("assertion")))
	if err != nil {
		return broker.E(broker.Invalid, "The browser made no passkey that can be used here. Try again; it needs one that asks for your finger, face or PIN.", err)
	}
	key.Name = name
	if err := s.b.PasskeyAdded(ctx, v.Principal, hex.EncodeToString(key.ID), key.PublicKey); err != nil {
		return err
	}
	if err := s.cfg.Passkeys.AddPasskey(ctx, key); err != nil {
		return broker.E(broker.Unavailable, "The passkey could not be kept. Try again.", err)
	}
	return s.redirect(c, "/settings")
}

func passkeyName(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		s = "Passkey"
	}
	if utf8.RuneCountInString(s) > 60 || !jose.Plain(s) {
		return "", broker.E(broker.Invalid, "A name of at most 60 characters that can be seen.", nil)
	}
	return s, nil
}

// renamePasskey calls one otherwise: by their names people know which of them to remove, so
// that who finds an open browser must not change them either.
func (s *Console) renamePasskey(c echo.Context, v *visit) error {
	if err := s.mayChange(v); err != nil {
		return err
	}
	ctx, form := c.Request().Context(), c.Request().PostForm
	id, err := hex.DecodeString(form.Get("id"))
	if err != nil {
		return broker.E(broker.Invalid, "This is no passkey.", err)
	}
	name, err := passkeyName(form.Get("name"))
	if err != nil {
		return err
	}
	have, err := s.passkeys(ctx, v)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(have, func(p people.Passkey) bool { return bytes.Equal(p.ID, id) }) {
		return broker.E(broker.NotFound, "You have no such passkey.", nil)
	}
	if err := s.b.PasskeyRenamed(ctx, v.Principal, hex.EncodeToString(id), name); err != nil {
		return err
	}
	switch err := s.cfg.Names.RenamePasskey(ctx, v.ID, id, name); {
	case errors.Is(err, people.ErrNoPasskey):
		return broker.E(broker.NotFound, "You have no such passkey.", err)
	case err != nil:
		return broker.E(broker.Unavailable, "The database does not answer: the passkey is called as it was. Try again.", err)
	}
	return s.redirect(c, "/settings")
}

// removePasskey forgets one. Who finds an open browser must not be rid so of the passkey
// that an approval would have asked for.
func (s *Console) removePasskey(c echo.Context, v *visit) error {
	if !s.fresh(v) {
		return broker.E(broker.Forbidden, "To remove a passkey, you must have proved who you are within the last 10 minutes, as strongly as this ebb asks. Do it again by the link in the settings.", nil)
	}
	id, err := hex.DecodeString(c.Request().PostForm.Get("id"))
	if err != nil {
		return broker.E(broker.Invalid, "This is no passkey.", err)
	}
	ctx := c.Request().Context()
	if err := s.cfg.Passkeys.RemovePasskey(ctx, v.ID, id); err != nil {
		if errors.Is(err, people.ErrNoPasskey) {
			return broker.E(broker.NotFound, "You have no such passkey.", err)
		}
		return broker.E(broker.Unavailable, "The database does not answer: the passkey is as it was. Try again.", err)
	}
	if err := s.b.PasskeyRemoved(ctx, v.Principal, hex.EncodeToString(id)); err != nil {
		return err
	}
	return s.redirect(c, "/settings")
}

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
