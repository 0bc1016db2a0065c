package oidc

import (
	"crypto/hmac"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/oauth2"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/signin"
)

const (
	// cookieName binds a response of the provider to the browser that started
	// the sign-in. Without it an attacker could sign another person in under
	// the attacker's account (RFC 9700 section 4.7).
	cookieName = "__Host-ebb-oidc"
	lifetime   = 10 * time.Minute // of one sign-in, including the provider's login form
	maxAge     = 8 * time.Hour    // of the person's authentication at the provider
)

// attempt is a sign-in in progress. It is stored in a cookie.
type attempt struct {
	ID    string
	At    time.Time
	Again bool   // for a decision: the person must authenticate now
	For   string // with Again: id of the only action that it is valid for
}

// purposeForm is the form of ebb's ids. No other value of "for" is accepted.
var purposeForm = lazyregexp.New(`\A[a-z]{3}_[0-9a-f]{32}\z`)

// Begin implements signin.Method. It is a GET because it redirects to another
// origin, which form-action forbids for a form.
func (o *OIDC) Begin(c echo.Context, _ signin.Host) error {
	s, err := o.provider(c.Request().Context())
	if err != nil {
		return err
	}
	a := attempt{ID: rand.Text() + rand.Text(), At: o.cfg.Now(), Again: c.QueryParam("again") == "1"}
	if a.Again && purposeForm.MatchString(c.QueryParam("for")) {
		a.For = c.QueryParam("for")
	}
	c.SetCookie(&http.Cookie{Name: cookieName, Value: o.seal(a), Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(lifetime / time.Second)})
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(o.derive("verifier", a.ID)), oauth2.SetAuthURLParam("nonce", o.derive("nonce", a.ID))}
	age := maxAge
	if a.Again {
		age = 0
		if len(o.cfg.ACRValues) > 0 {
			options = append(options, oauth2.SetAuthURLParam("acr_values", strings.Join(o.cfg.ACRValues, " ")))
		}
	}
	options = append(options, oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(age/time.Second))))
	return c.Redirect(http.StatusSeeOther, s.oauth.AuthCodeURL(o.derive("state", a.ID), options...))
}

func (o *OIDC) seal(a attempt) string {
	text := strings.Join([]string{a.ID, strconv.FormatInt(a.At.Unix(), 10), strconv.FormatBool(a.Again), a.For}, ".")
	return text + "." + o.derive("cookie", text)
}

// attempt reads the cookie. It accepts one that this ebb wrote within the last 10 minutes.
func (o *OIDC) attempt(c echo.Context) (attempt, error) {
	no := broker.E(broker.Unauthenticated, "This sign-in did not start in this browser, or started more than 10 minutes ago. Start again.", nil)
	found := c.Request().CookiesNamed(cookieName)
	if len(found) != 1 {
		return attempt{}, no
	}
	part := strings.Split(found[0].Value, ".")
	if len(part) != 5 || !hmac.Equal([]byte(part[4]), []byte(o.derive("cookie", strings.Join(part[:4], ".")))) {
		return attempt{}, no
	}
	at, err := strconv.ParseInt(part[1], 10, 64)
	a := attempt{ID: part[0], At: time.Unix(at, 0), Again: part[2] == "true", For: part[3]}
	if age := o.cfg.Now().Sub(a.At); err != nil || age < -time.Minute || age > lifetime {
		return attempt{}, no
	}
	return a, nil
}
