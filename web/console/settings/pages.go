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

// Config holds the dependencies of New.
type Config struct {
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

// Pages serves the settings of a person.
type Pages struct {
	b           Broker
	shell       *shell.Shell
	proofs      *proof.Proofs
	sessions    *session.Sessions
	keys        *passkey.Keys
	store       people.PasskeyStore
	names       people.PasskeyNames
	reach       people.ReachStore
	pushes      people.PushStore
	push        Push
	tellsPeople bool
}

// New returns the pages of this area.
func New(c Config) *Pages {
	return &Pages{b: c.Broker, shell: c.Shell, proofs: c.Proofs, sessions: c.Sessions, keys: c.Keys, store: c.Passkeys, names: c.Names, reach: c.Reach, pushes: c.Pushes, push: c.Push, tellsPeople: c.TellsPeople}
}

// Routes are the routes of settings.
func (ps *Pages) Routes() []shell.Route {
	return []shell.Route{
		ps.shell.Page("/settings", ps.settings),
		ps.shell.Form("/settings/look", true, ps.look),
		ps.shell.Form("/settings/notifications", false, ps.setPreferences),
		ps.shell.Form("/settings/absence", false, ps.setAbsence),
		ps.shell.Page("/settings/push", ps.showPush),
		ps.shell.Form("/settings/push", false, ps.addPush),
		ps.shell.Form("/settings/push/remove", true, ps.removePush),
		ps.shell.Page("/settings/again", ps.again),
		ps.shell.Page("/settings/passkeys/options", ps.registerOptions),
		ps.shell.Form("/settings/passkeys", false, ps.addPasskey),
		ps.shell.Form("/settings/passkeys/rename", false, ps.renamePasskey),
		ps.shell.Form("/settings/passkeys/remove", true, ps.removePasskey),
		ps.shell.Form("/settings/sessions", true, ps.endSessions),
	}
}

// again redirects to the identity provider, which returns to the settings.
func (ps *Pages) again(c echo.Context, v *session.Visit) error {
	return ps.proofs.SignInAgain(c, v, "/settings", "")
}
