package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// The cookies of a session. With the Strict one alone, a person who follows a
// link from a chat would look signed out. With the Lax one alone, another site
// could make a browser send a form. The __Host- prefix (RFC 6265bis section
// 4.1.3.2) keeps sibling hosts from setting them.
const (
	CookieRead = "__Host-ebb-sess" // SameSite=Lax: reads
	CookieAct  = "__Host-ebb-act"  // SameSite=Strict: required for every change
	CookieTo   = "__Host-ebb-to"   // path to return to after signing in
)

// Preferences of this browser. No decision depends on them, and scripts may write them.
const (
	CookieTheme = "ebb-theme" // light, dark, or empty: the system setting
	CookieZone  = "ebb-zone"  // IANA name of the time zone
)

// NewSecret returns a random cookie value and the hash of it that is stored.
func NewSecret() (value, hash string) {
	value = rand.Text() + rand.Text()
	return value, HashOf(value)
}

// HashOf returns the hash of a cookie value that is stored: the id of a session.
func HashOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// Cookie reads a cookie. When a name occurs twice it returns "", because one of
// the two was not set by ebb.
func Cookie(c echo.Context, name string) string {
	found := c.Request().CookiesNamed(name)
	if len(found) != 1 {
		return ""
	}
	return found[0].Value
}

// SetCookie sets a cookie that scripts cannot read. An empty value removes it.
func SetCookie(c echo.Context, name, value string, site http.SameSite, life time.Duration) {
	ck := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: site, MaxAge: int(life / time.Second)}
	if value == "" {
		ck.MaxAge = -1
	}
	c.SetCookie(ck)
}
