package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// The cookies of a session. With the Strict one alone, who follows a link from a chat
// would look signed out; with the Lax one alone, another site could make a browser act.
// __Host- (RFC 6265bis section 4.1.3.2) keeps sibling hosts from setting them.
const (
	cookieRead = "__Host-ebb-sess" // SameSite=Lax: reads
	cookieAct  = "__Host-ebb-act"  // SameSite=Strict: needed to change something
	cookieTo   = "__Host-ebb-to"   // where to go after signing in
)

// What a person chose for this browser. They decide nothing, and scripts may write them.
const (
	cookieTheme = "ebb-theme" // light, dark, or neither: as the system says
	cookieZone  = "ebb-zone"  // IANA name of the time zone
)

// newSecret is the value of a cookie, and what is kept of it.
func newSecret() (value, hash string) {
	value = rand.Text() + rand.Text()
	return value, hashOf(value)
}

func hashOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// cookie reads one. A name that comes twice is none: one of them is not ours.
func cookie(c echo.Context, name string) string {
	found := c.Request().CookiesNamed(name)
	if len(found) != 1 {
		return ""
	}
	return found[0].Value
}

func setCookie(c echo.Context, name, value string, site http.SameSite, life time.Duration) {
	ck := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: site, MaxAge: int(life / time.Second)}
	if value == "" {
		ck.MaxAge = -1
	}
	c.SetCookie(ck)
}
