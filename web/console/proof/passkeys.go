package proof

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

// Passkeys returns the passkeys of the visitor.
func (ps *Proofs) Passkeys(ctx context.Context, v *session.Visit) ([]people.Passkey, error) {
	list, err := ps.store.Passkeys(ctx, v.ID)
	if err != nil {
		return nil, broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	return list, nil
}

// Ceremony holds the options for the browser, and the state that the form sends back.
type Ceremony struct {
	Options json.RawMessage `json:"options"`
	State   string          `json:"state"`
}

// Challenge returns the URL from which the form's script gets the passkey challenge. It returns ""
// when the person has no passkey, or the console has none.
func (ps *Proofs) Challenge(v shell.View, request, choice, digest string) (string, error) {
	return ps.challengeAt(v, "/requests/"+url.PathEscape(request), choice, digest)
}

// ChallengeForDraft is Challenge for publishing a draft of policies.
func (ps *Proofs) ChallengeForDraft(v shell.View, id, digest string) (string, error) {
	return ps.challengeAt(v, "/policy/drafts/"+url.PathEscape(id), ChoicePublish, digest)
}

func (ps *Proofs) challengeAt(v shell.View, page, choice, digest string) (string, error) {
	if ps.keys == nil {
		return "", nil
	}
	have, err := ps.Passkeys(context.Background(), v.Who)
	if err != nil || len(have) == 0 {
		return "", err
	}
	return v.Base + page + "/challenge?" + url.Values{"choice": {choice}, "digest": {digest}}.Encode(), nil
}

// Available returns an error of kind NotFound when this console has no passkeys.
func (ps *Proofs) Available() error {
	if ps.keys == nil {
		return broker.E(broker.NotFound, "Passkeys are not available: the console is at an IP address. Set public_url to a host name.", nil)
	}
	return nil
}

// Ask sends the passkey challenge for the answers, which are signed together.
func (ps *Proofs) Ask(c echo.Context, v *session.Visit, ds []passkey.Decision) error {
	if err := ps.Available(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	have, err := ps.Passkeys(ctx, v)
	if err != nil {
		return err
	}
	options, state, err := ps.keys.Ask(passkey.Combine(ds), v.ID, v.Session.ID, have)
	if err != nil {
		return broker.E(broker.NotFound, "You have no passkey.", err)
	}
	return c.JSON(http.StatusOK, Ceremony{options, state})
}

// Proved verifies the passkey assertion in the form and stores the proof in the
// verdict. Each assertion is accepted once.
func (ps *Proofs) Proved(c echo.Context, v *session.Visit, ds []passkey.Decision, out *broker.Verdict) error {
	if ps.keys == nil {
		return broker.E(broker.Invalid, "Passkeys are not available: the console is at an IP address. Set public_url to a host name.", nil)
	}
	if v.Session.Method != session.MethodLink && v.Now.Sub(v.Session.GroupsAt) > groupsFor {
		return broker.E(broker.Forbidden, "Your groups were read more than 15 minutes ago. Sign in again, then send this form.", nil)
	}
	ctx, form := c.Request().Context(), c.Request().PostForm
	have, err := ps.Passkeys(ctx, v)
	if err != nil {
		return err
	}
	p, count, once, err := ps.keys.Proved(passkey.Combine(ds), v.ID, v.Session.ID, form.Get("state"), have, []byte(form.Get("assertion")))
	if err != nil {
		return broker.E(broker.Forbidden, "The passkey assertion is not valid for this answer. Send the form again.", err)
	}
	if err := ps.b.Once(ctx, "passkey:"+once, v.Now.Add(2*passkey.Lifetime)); err != nil {
		return err
	}
	switch err := ps.store.UsePasskey(ctx, v.ID, p.Key, count, v.Now); {
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

// Check verifies a signature against the audit log and describes the result.
// what describes the signed data.
func Check(read func() (*audit.Signature, error), what string) (says string, holds bool, err error) {
	sig, err := read()
	e := broker.AsError(err)
	switch {
	case e != nil && e.Kind == broker.Conflict:
		return e.Public, false, nil
	case err != nil:
		return "", false, err
	case sig == nil:
		return "No passkey signed this answer. Its only proof is the session in which it was given.", true, nil
	}
	if err := passkey.Check(*sig); err != nil {
		return "The stored signature is not valid: " + err.Error() + ".", false, nil
	}
	by := "passkey " + shortKey(sig.Passkey)
	if sig.KeyHash == "" {
		return "The signature is valid, checked now: by " + by + ". The audit log does not tell whose passkey it is.", false, nil
	}
	return "The signature is valid, checked now: by " + by + " of " + sig.By + ", registered " + sig.Registered.UTC().Format("2006-01-02 15:04 UTC") + ", " + what + ".", true, nil
}

// shortKey shortens the id of a passkey to 16 characters.
func shortKey(id string) string {
	if len(id) > 16 {
		return id[:16] + "…"
	}
	return id
}
