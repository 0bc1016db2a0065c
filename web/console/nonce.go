package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// fieldNonce is the form field that holds the nonce.
const fieldNonce = "nonce"

// nonce lets a form at this path be sent once in this session. It is a MAC and
// is not stored; a used nonce is a claim in the LiveStore.
func (pg *pages) nonce(v *visit, path string) string {
	once := rand.Text()
	return once + "." + pg.nonceMAC(v, path, once)
}

// readNonce verifies a nonce and returns its random part, which the caller
// claims.
func (pg *pages) readNonce(v *visit, path, nonce string) (once string, ok bool) {
	once, mac, found := strings.Cut(nonce, ".")
	return once, found && hmac.Equal([]byte(mac), []byte(pg.nonceMAC(v, path, once)))
}

func (pg *pages) nonceMAC(v *visit, path, once string) string {
	m := hmac.New(sha256.New, pg.key)
	for _, part := range []string{"form", v.session.ID, path, once} {
		m.Write([]byte(part))
		m.Write([]byte{0})
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
