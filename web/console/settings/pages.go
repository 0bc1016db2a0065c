package settings

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// Broker is the part of the core that this area calls.
type Broker interface {
	PasskeyAdded(ctx context.Context, who broker.Principal, id string, publicKey []byte) error
	PasskeyRenamed(ctx context.Context, who broker.Principal, id string, name string) error
	PasskeyRemoved(ctx context.Context, who broker.Principal, id string) error
	LeaveBreakGlass(ctx context.Context, who broker.Principal) error
	SettingChanged(ctx context.Context, who broker.Principal, kind string, data map[string]any) error
	SignedOut(ctx context.Context, who broker.Principal, sessions int)
}

// Pages serves the settings of a person.
type Pages struct {
	Broker      Broker
	Shell       *shell.Shell
	Proofs      *proof.Proofs
	Sessions    *session.Sessions
	Keys        *passkey.Keys // nil: passkeys do not work at this host
	Passkeys    people.PasskeyStore
	Names       people.PasskeyNames
	Reach       people.ReachStore
	Pushes      people.PushStore
	Push        Push // nil: no channel sends to browsers
	TellsPeople bool // a notification channel sends to people's own addresses
}

// Routes are the routes of settings.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.Shell.Page("/settings", ps.settings),
		ps.Shell.Form("/settings/look", true, ps.look),
		ps.Shell.Form("/settings/notifications", false, ps.setPreferences),
		ps.Shell.Form("/settings/absence", false, ps.setAbsence),
		ps.Shell.Page("/settings/push", ps.showPush),
		ps.Shell.Form("/settings/push", false, ps.addPush),
		ps.Shell.Form("/settings/push/remove", true, ps.removePush),
		ps.Shell.Page("/settings/again", ps.again),
		ps.Shell.Page("/settings/passkeys/options", ps.registerOptions),
		ps.Shell.Form("/settings/passkeys", false, ps.addPasskey),
		ps.Shell.Form("/settings/passkeys/rename", false, ps.renamePasskey),
		ps.Shell.Form("/settings/passkeys/remove", true, ps.removePasskey),
		ps.Shell.Form("/settings/sessions", true, ps.endSessions),
	}
}

// again redirects to the identity provider, which returns to the settings.
func (ps *Pages) again(c echo.Context, v *session.Visit) error {
	return ps.Proofs.SignInAgain(c, v, "/settings", "")
}
