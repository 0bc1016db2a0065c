package console

import (
	"mime"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// ours refuses a form that was not sent from a page of this console. Scripts
// cannot set these headers (Fetch Metadata), so even an injected script cannot
// post without a form that the person sends.
func (pg *pages) ours(r *http.Request) error {
	h := r.Header
	no := broker.E(broker.Forbidden, "This request must come from a form on the console's own pages. Programs use the API.", nil)
	for name, want := range map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Origin": pg.origin} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			return no
		}
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return broker.E(web.UnsupportedType, "The form must be sent as application/x-www-form-urlencoded.", err)
	}
	if err := r.ParseForm(); err != nil {
		return broker.E(broker.Invalid, "The form cannot be parsed. Reload the page and send it again.", err)
	}
	for name, values := range r.PostForm {
		if len(values) > 1 && !strings.HasSuffix(name, "[]") {
			return broker.E(broker.Invalid, "A field of the form occurs twice. Reload the page and send it again.", nil)
		}
	}
	return nil
}

// gate checks every form of a signed-in person. Forms that only deny, stop or
// revoke also pass while the LiveStore cannot tell whether they were sent
// before, because repeating them does no harm.
func (pg *pages) gate(c echo.Context, v *visit, ends bool) error {
	r := c.Request()
	if err := pg.ours(r); err != nil {
		return err
	}
	if !v.acts(c) {
		return broker.E(broker.Forbidden, "The browser did not send the cookie that changes require. Sign in again.", nil)
	}
	once, ok := pg.readNonce(v, r.URL.Path, r.PostForm.Get(fieldNonce))
	if !ok {
		return broker.E(broker.Conflict, "The form belongs to an older session. Go back, reload the page and send it again.", nil)
	}
	err := pg.b.Once(r.Context(), "form:"+once, v.session.ExpiresAt)
	switch e := broker.AsError(err); {
	case err == nil:
		return nil
	case e.Kind == broker.Conflict:
		return broker.E(broker.Conflict, "The form was already sent. Reload the page to see the result.", err)
	case ends && e.Kind == broker.Unavailable:
		return nil
	}
	return err
}
