package console

import (
	"mime"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// ours refuses a form that no page of this console sent. Scripts cannot set these
// headers (Fetch Metadata), so that not even one injected into a page of ours posts for
// a person without a form that the person sends.
func (s *Console) ours(r *http.Request) error {
	h := r.Header
	no := broker.E(broker.Forbidden, "Only a form on this console's own pages does this. Programs use the API.", nil)
	for name, want := range map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Origin": s.origin} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			return no
		}
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return broker.E(web.UnsupportedType, "A form comes as application/x-www-form-urlencoded.", err)
	}
	if err := r.ParseForm(); err != nil {
		return broker.E(broker.Invalid, "The form cannot be read.", err)
	}
	for name, values := range r.PostForm {
		if len(values) > 1 && !strings.HasSuffix(name, "[]") {
			return broker.E(broker.Invalid, "A field of the form came twice.", nil)
		}
	}
	return nil
}

// gate is what every form of somebody who is signed in must pass. Those that only end
// things pass although the ledger cannot say whether they were sent before: to end what
// has ended does no harm.
func (s *Console) gate(c echo.Context, v *visit, ends bool) error {
	r := c.Request()
	if err := s.ours(r); err != nil {
		return err
	}
	if !v.acts(c) {
		return broker.E(broker.Forbidden, "This browser did not send the cookie that is needed to change something. Sign in again.", nil)
	}
	once, ok := s.readNonce(v, r.URL.Path, r.PostForm.Get(fieldNonce))
	if !ok {
		return broker.E(broker.Conflict, "The form is of an older session. Go back, load the page again and send it once more.", nil)
	}
	err := s.b.Once(r.Context(), "form:"+once, v.session.ExpiresAt)
	switch e := broker.AsError(err); {
	case err == nil:
		return nil
	case e.Kind == broker.Conflict:
		return broker.E(broker.Conflict, "The form was sent already. Load the page again to see what came of it.", err)
	case ends && e.Kind == broker.Unavailable:
		return nil
	}
	return err
}
