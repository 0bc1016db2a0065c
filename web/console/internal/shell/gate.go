package shell

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// Ours refuses a form that was not sent from a page of this console. Scripts
// cannot set these headers (Fetch Metadata), so even an injected script cannot
// post without a form that the person sends.
func (s *Shell) Ours(r *http.Request) error {
	h := r.Header
	no := broker.E(broker.Forbidden, "This request must come from a form on the console's own pages. Programs use the API.", nil)
	for name, want := range map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Origin": s.origin} {
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

// Gate checks every form of a signed-in person. Forms that only deny, stop or
// revoke also pass while the LiveStore cannot tell whether they were sent
// before, because repeating them does no harm.
func (s *Shell) Gate(c echo.Context, v *session.Visit, ends bool) error {
	r := c.Request()
	if err := s.Ours(r); err != nil {
		return err
	}
	if !v.Acts(c) {
		return broker.E(broker.Forbidden, "The browser did not send the cookie that changes require. Sign in again.", nil)
	}
	once, ok := s.readNonce(v, r.URL.Path, r.PostForm.Get(fieldNonce))
	if !ok {
		return broker.E(broker.Conflict, "The form belongs to an older session. Go back, reload the page and send it again.", nil)
	}
	err := s.b.Once(r.Context(), "form:"+once, v.Session.ExpiresAt)
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

// fieldNonce is the form field that holds the nonce.
const fieldNonce = "nonce"

// Nonce lets a form at this path be sent once in this session. It is a MAC and
// is not stored; a used nonce is a claim in the LiveStore.
func (s *Shell) Nonce(v *session.Visit, path string) string {
	once := rand.Text()
	return once + "." + s.nonceMAC(v, path, once)
}

// readNonce verifies a nonce and returns its random part, which the caller claims.
func (s *Shell) readNonce(v *session.Visit, path, nonce string) (once string, ok bool) {
	once, mac, found := strings.Cut(nonce, ".")
	return once, found && hmac.Equal([]byte(mac), []byte(s.nonceMAC(v, path, once)))
}

func (s *Shell) nonceMAC(v *session.Visit, path, once string) string {
	m := hmac.New(sha256.New, s.key)
	for _, part := range []string{"form", v.Session.ID, path, once} {
		m.Write([]byte(part))
		m.Write([]byte{0})
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
