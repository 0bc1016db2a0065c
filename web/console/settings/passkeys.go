package settings

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// mayChange refuses people who have not signed in within the last 10 minutes with the strength that
// a decision needs, because a passkey later replaces such a sign-in. Without the check, a person who
// finds an open browser, or has only a password, could add a passkey and decide with it.
func (ps *Pages) mayChange(v *session.Visit) error {
	switch {
	case ps.Keys == nil:
		return broker.E(broker.Invalid, "Passkeys need a host name, and this console is at an IP address. Set public_url to a host name.", nil)
	case !ps.Proofs.Fresh(v):
		return broker.E(broker.Forbidden, "To add or rename a passkey, you must have signed in within the last 10 minutes with the required strength (acr). Sign in again by the link in the settings.", nil)
	}
	return nil
}

func (ps *Pages) registerOptions(c echo.Context, v *session.Visit) error {
	if err := ps.mayChange(v); err != nil {
		return err
	}
	have, err := ps.Proofs.Passkeys(c.Request().Context(), v)
	if err != nil {
		return err
	}
	options, state, err := ps.Keys.Register(v.ID, v.Session.Name, v.Session.ID, have)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, proof.Ceremony{Options: options, State: state})
}

func (ps *Pages) addPasskey(c echo.Context, v *session.Visit) error {
	if err := ps.mayChange(v); err != nil {
		return err
	}
	ctx, form := c.Request().Context(), c.Request().PostForm
	have, err := ps.Proofs.Passkeys(ctx, v)
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
	key, err := ps.Keys.Registered(v.ID, v.Session.Name, v.Session.ID, form.Get("state"), []byte(form.Get("assertion")))
	if err != nil {
		return broker.E(broker.Invalid, "The browser created no usable passkey. Try again with one that asks for your fingerprint, face or PIN.", err)
	}
	key.Name = name
	if err := ps.Broker.PasskeyAdded(ctx, v.Principal, hex.EncodeToString(key.ID), key.PublicKey); err != nil {
		return err
	}
	if err := ps.Passkeys.AddPasskey(ctx, key); err != nil {
		return broker.E(broker.Unavailable, "The passkey could not be stored. Try again.", err)
	}
	return ps.Shell.Redirect(c, "/settings")
}

func passkeyName(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		s = "Passkey"
	}
	if utf8.RuneCountInString(s) > 60 || !jose.Plain(s) {
		return "", broker.E(broker.Invalid, "The name must have at most 60 characters, all of them visible.", nil)
	}
	return s, nil
}

// renamePasskey renames a passkey. It needs the proof of mayChange, because
// people choose by name which passkey to remove.
func (ps *Pages) renamePasskey(c echo.Context, v *session.Visit) error {
	if err := ps.mayChange(v); err != nil {
		return err
	}
	ctx, form := c.Request().Context(), c.Request().PostForm
	id, err := hex.DecodeString(form.Get("id"))
	if err != nil {
		return broker.E(broker.Invalid, "The id of the passkey is not valid.", err)
	}
	name, err := passkeyName(form.Get("name"))
	if err != nil {
		return err
	}
	have, err := ps.Proofs.Passkeys(ctx, v)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(have, func(p people.Passkey) bool { return bytes.Equal(p.ID, id) }) {
		return broker.E(broker.NotFound, "You have no such passkey.", nil)
	}
	if err := ps.Broker.PasskeyRenamed(ctx, v.Principal, hex.EncodeToString(id), name); err != nil {
		return err
	}
	switch err := ps.Names.RenamePasskey(ctx, v.ID, id, name); {
	case errors.Is(err, people.ErrNoPasskey):
		return broker.E(broker.NotFound, "You have no such passkey.", err)
	case err != nil:
		return broker.E(broker.Unavailable, "The database does not answer: the passkey was not renamed. Try again.", err)
	}
	return ps.Shell.Redirect(c, "/settings")
}

// removePasskey deletes a passkey. It needs a recent sign-in, so that a person
// who finds an open browser cannot remove the passkey that approvals need.
func (ps *Pages) removePasskey(c echo.Context, v *session.Visit) error {
	if !ps.Proofs.Fresh(v) {
		return broker.E(broker.Forbidden, "To remove a passkey, you must have signed in within the last 10 minutes with the required strength (acr). Sign in again by the link in the settings.", nil)
	}
	id, err := hex.DecodeString(c.Request().PostForm.Get("id"))
	if err != nil {
		return broker.E(broker.Invalid, "The id of the passkey is not valid.", err)
	}
	ctx := c.Request().Context()
	if err := ps.Passkeys.RemovePasskey(ctx, v.ID, id); err != nil {
		if errors.Is(err, people.ErrNoPasskey) {
			return broker.E(broker.NotFound, "You have no such passkey.", err)
		}
		return broker.E(broker.Unavailable, "The database does not answer: the passkey was not removed. Try again.", err)
	}
	if err := ps.Broker.PasskeyRemoved(ctx, v.Principal, hex.EncodeToString(id)); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/settings")
}
