package signin

import (
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
)

// Person is who signed in.
type Person struct {
	broker.Principal
	Name     string    // what the person is called; "" = the principal's id
	Mail     string    // address that whoever proved it has verified; "" = none
	ACR      string    // how strongly it was proved, in the words of who proved it; "" = not said
	Purpose  string    // what it was proved anew for, as ?for= said; "" = nothing but to sign in
	AuthAt   time.Time // when it was proved; zero = not said: too long ago for anything that asks when
	GroupsAt time.Time // when the groups were true; zero = now
	Until    time.Time // the session ends no later; zero = when the console says
}

// Method is one way in.
type Method interface {
	// Name is the last segment of its path, /signin/<name>: lower-case ASCII.
	Name() string
	// Label says to people what it is, as a button does. "" = it is not offered:
	// whoever uses it comes by a link.
	Label() string
	// Begin answers GET /signin/<name>, to which the console's page leads.
	Begin(c echo.Context, h Host) error
	// Finish answers POST /signin/<name>, a form of this console's own pages, and GET
	// /signin/<name>/callback, to which somebody else leads.
	Finish(c echo.Context, h Host) error
}

// Prover is a Method that can have somebody prove it again: GET /signin/<name>?again=1
// leads to a proof that is made now, as strong as a decision needs; &for=ID to one whose
// Person has that Purpose.
type Prover interface {
	Method
	// Strong reports whether what was proved with this ACR is that strong.
	Strong(acr string) bool
}

// Knower is a Method that says what a person may do by the groups they are in. Sessions
// ask it each time, so that a role taken away by the configuration is gone at once.
type Knower interface {
	Method
	Know(p broker.Principal) broker.Principal
}

// Host is the console, as a Method sees it.
type Host interface {
	// Welcome begins a session and leads to the page that the person came for.
	Welcome(c echo.Context, p Person) error
	// Ask draws one form that posts to /signin/<name>.
	Ask(c echo.Context, f Form) error
}

// Form is one question with one button.
type Form struct {
	Title  string
	Text   string            // one or two plain sentences
	Hidden map[string]string // fields that nobody sees
	Button string
}
