package console

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/people"
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
