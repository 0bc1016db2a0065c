package settings

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// Push is the channel that sends to browsers.
type Push interface {
	// PublicKey returns the key with which browsers subscribe.
	PublicKey() string
	// Subscription checks and seals what a browser sends.
	Subscription(person, text string) (people.Push, error)
}

type pushPage struct {
	Browsers []people.Push
	Key      string
}

// errNoPush means that no channel of kind webpush is configured.
var errNoPush = broker.E(broker.NotFound, "This ebb does not send notifications to browsers. Its operator can add a channel of kind webpush under notify.channels.", nil)

// browsersOf returns the browsers in which the person gets notifications.
func (ps *Pages) browsersOf(c echo.Context, v *session.Visit) ([]people.Push, error) {
	if ps.Push == nil {
		return nil, errNoPush
	}
	list, err := ps.Pushes.Pushes(c.Request().Context(), v.ID)
	if err != nil {
		return nil, broker.E(broker.Unavailable, "The database does not answer. Try again in a moment.", err)
	}
	return list, nil
}

func (ps *Pages) showPush(c echo.Context, v *session.Visit) error {
	list, err := ps.browsersOf(c, v)
	if err != nil {
		return err
	}
	shell.AllowWorker(c.Response().Header())
	return ps.Shell.Draw(c, http.StatusOK, v, "push", shell.Frame{Title: "Notifications in browsers", Nav: "/settings"}, pushPage{Browsers: list, Key: ps.Push.PublicKey()})
}

func (ps *Pages) addPush(c echo.Context, v *session.Visit) error {
	list, err := ps.browsersOf(c, v)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	p, err := ps.Push.Subscription(v.ID, c.Request().PostForm.Get("subscription"))
	if err != nil {
		return broker.E(broker.Invalid, "Notifications were not turned on: "+err.Error()+". Turning them on needs JavaScript and a browser with Web Push.", err)
	}
	if len(list) >= people.MaxPushes {
		return tooMany(nil)
	}
	p.Name, p.CreatedAt = browserName(v.Session.Agent), time.Now()
	if err := ps.Broker.SettingChanged(ctx, v.Principal, audit.PushAdded, map[string]any{"subscription": p.ID, "browser": p.Name}); err != nil {
		return err
	}
	switch err := ps.Pushes.AddPush(ctx, p); {
	case errors.Is(err, people.ErrPushes):
		return tooMany(err)
	case err != nil:
		return broker.E(broker.Unavailable, "The database does not answer: notifications were not turned on. Try again.", err)
	}
	return ps.Shell.Redirect(c, "/settings/push")
}

func tooMany(cause error) error {
	return broker.E(broker.Invalid, "You get notifications in 10 browsers. Remove one first.", cause)
}

func (ps *Pages) removePush(c echo.Context, v *session.Visit) error {
	ctx, id := c.Request().Context(), c.Request().PostForm.Get("id")
	switch err := ps.Pushes.RemovePush(ctx, v.ID, id); {
	case errors.Is(err, people.ErrNoPush):
		return broker.E(broker.NotFound, "You have no such browser.", err)
	case err != nil:
		return broker.E(broker.Unavailable, "The database does not answer: the browser was not removed. Try again.", err)
	}
	if err := ps.Broker.SettingChanged(ctx, v.Principal, audit.PushRemoved, map[string]any{"subscription": id}); err != nil {
		return err
	}
	return ps.Shell.Redirect(c, "/settings/push")
}
