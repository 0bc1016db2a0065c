package signin

import (
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
)

// Person is the person who signed in.
type Person struct {
	broker.Principal
	Name     string    // display name; "" = the principal's id
	Mail     string    // e-mail address verified by the identity provider; "" = none
	ACR      string    // authentication context of the provider (acr); "" = unknown
	Purpose  string    // id of the action of ?for=; "" = an ordinary sign-in
	AuthAt   time.Time // time of authentication; zero = unknown, which counts as too long ago
	GroupsAt time.Time // time at which the groups were read; zero = now
	Until    time.Time // latest end of the session; zero = the console's limit
	Page     string    // console page to open; "" = the page requested before the sign-in
}

// Method is one sign-in method.
type Method interface {
	// Name is the last segment of its path, /signin/<name>: lower-case ASCII.
	Name() string
	// Label is the text of its button on the sign-in page. "" = no button, for methods that
	// begin with a link.
	Label() string
	// Begin serves GET /signin/<name>, which the console's sign-in page links to.
	Begin(c echo.Context, h Host) error
	// Finish serves POST /signin/<name>, a form of the console's own pages, and
	// GET /signin/<name>/callback, which the identity provider redirects to.
	Finish(c echo.Context, h Host) error
}

// Prover is a Method by which a person can sign in again: GET
// /signin/<name>?again=1 requires authentication now, with the strength that a
// decision needs. With &for=ID the resulting Person has that Purpose.
type Prover interface {
	Method
	// Strong reports whether an authentication with this ACR has that strength.
	Strong(acr string) bool
}

// Knower is a Method that maps a person's groups to rights. Sessions call it for each request, so
// that a role removed from the configuration is lost at once.
type Knower interface {
	Method
	Know(p broker.Principal) broker.Principal
}

// Host is the console, as used by a Method.
type Host interface {
	// Welcome creates a session and redirects to the requested page.
	Welcome(c echo.Context, p Person) error
	// Ask shows one form that posts to /signin/<name>.
	Ask(c echo.Context, f Form) error
}

// Form is a text with one button.
type Form struct {
	Title  string
	Text   string            // one or two plain sentences
	Hidden map[string]string // hidden form fields
	Button string
}
