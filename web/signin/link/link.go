package link

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/signin"
)

// lifetime of a link. People open it at once.
const lifetime = 2 * time.Minute

// Config holds the settings of New.
type Config struct {
	Broker *core.Broker     // required
	Base   string           // base URL of the console; required
	Key    []byte           // 32 bytes that replicas share; required
	Now    func() time.Time // nil = time.Now
}

// Links makes links and is the Method that accepts them.
type Links struct{ cfg Config }

var _ signin.Method = (*Links)(nil)

// New returns Links.
func New(c Config) *Links {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Links{cfg: c}
}

// content is the payload of a link. A MAC proves that this ebb wrote it.
type content struct {
	Principal string        `json:"p"`
	Roles     []broker.Role `json:"r"`
	Until     int64         `json:"e"` // Unix seconds
	Once      string        `json:"o"`
	// Times of the access token with which the link was made, in Unix seconds; 0 = unknown.
	AuthAt int64 `json:"a"` // time at which its holder authenticated
	End    int64 `json:"s"` // its expiry, which also ends the session
}

// Make returns a link that signs in the principal once, and the time until which the link works. Using
// the link does not prove presence: the session keeps the time at which the principal authenticated,
// and ends with the access token.
func (l *Links) Make(_ context.Context, who broker.Principal) (secret.Secret, time.Time, error) {
	if err := who.Certain(); err != nil {
		return secret.Secret{}, time.Time{}, err
	}
	in := content{Principal: who.ID, Roles: who.Roles, Once: rand.Text()}
	until := l.cfg.Now().Add(lifetime).Truncate(time.Second)
	if !who.Until.IsZero() {
		in.End = who.Until.Unix()
		if who.Until.Before(until) {
			until = who.Until.Truncate(time.Second)
		}
	}
	if !who.AuthAt.IsZero() {
		in.AuthAt = who.AuthAt.Unix()
	}
	in.Until = until.Unix()
	body, err := json.Marshal(in)
	if err != nil {
		return secret.Secret{}, time.Time{}, err
	}
	text := base64.RawURLEncoding.EncodeToString(body)
	return secret.New(l.cfg.Base + "/signin/" + l.Name() + "?" + url.Values{"t": {text + "." + l.mac(text)}}.Encode()), until, nil
}

func (l *Links) mac(text string) string {
	m := hmac.New(sha256.New, l.cfg.Key)
	m.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// Name implements signin.Method.
func (l *Links) Name() string { return "link" }

// Label implements signin.Method. It is empty: 'ebb console' prints the link.
func (l *Links) Label() string { return "" }

// Begin implements signin.Method. It does not use the link up, because link
// previews and scanners also fetch it.
func (l *Links) Begin(c echo.Context, h signin.Host) error {
	token := c.QueryParam("t")
	in, err := l.read(token)
	if err != nil {
		return err
	}
	return h.Ask(c, signin.Form{
		Title: "Sign in as " + in.Principal, Text: "This link was made by 'ebb console' on this machine. It works once.",
		Hidden: map[string]string{"t": token, "to": c.QueryParam("to")}, Button: "Sign in",
	})
}

// Finish implements signin.Method.
func (l *Links) Finish(c echo.Context, h signin.Host) error {
	in, err := l.read(c.Request().PostFormValue("t")) // never from the query: a GET must not sign in
	if err != nil {
		return err
	}
	who, known := l.cfg.Broker.Principal(in.Principal)
	if !known {
		return errLink()
	}
	who.Roles = slices.DeleteFunc(slices.Clone(who.Roles), func(r broker.Role) bool { return !slices.Contains(in.Roles, r) })
	if err := l.cfg.Broker.Once(c.Request().Context(), "link:"+in.Once, time.Unix(in.Until, 0).Add(time.Minute)); err != nil {
		if broker.AsError(err).Kind == broker.Conflict {
			return errLink()
		}
		return err
	}
	p := signin.Person{Principal: who, Page: c.Request().PostFormValue("to")}
	if in.AuthAt != 0 {
		p.AuthAt = time.Unix(in.AuthAt, 0)
	}
	if in.End != 0 {
		p.Until = time.Unix(in.End, 0)
	}
	return h.Welcome(c, p)
}

func (l *Links) read(token string) (in content, err error) {
	text, mac, found := strings.Cut(token, ".")
	if !found || len(token) > 2048 || !hmac.Equal([]byte(mac), []byte(l.mac(text))) {
		return in, errLink()
	}
	body, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(body, &in) != nil || !l.cfg.Now().Before(time.Unix(in.Until, 0)) {
		return in, errLink()
	}
	return in, nil
}

func errLink() error {
	return broker.E(broker.Unauthenticated, "The link was already used, has expired, or was not made by this ebb. Run 'ebb console' for a new one.", nil)
}
