package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// fieldNonce is in every form that changes something.
const fieldNonce = "nonce"

// nonce lets a form at this path be sent once, in this session. Nobody keeps it: it is
// a MAC, and what is spent is a claim in the ledger.
func (s *Console) nonce(v *visit, path string) string {
	once := rand.Text()
	return once + "." + s.nonceMAC(v, path, once)
}

// readNonce returns what a nonce spends.
func (s *Console) readNonce(v *visit, path, nonce string) (once string, ok bool) {
	once, mac, found := strings.Cut(nonce, ".")
	return once, found && hmac.Equal([]byte(mac), []byte(s.nonceMAC(v, path, once)))
}

func (s *Console) nonceMAC(v *visit, path, once string) string {
	m := hmac.New(sha256.New, s.cfg.Key)
	for _, part := range []string{"form", v.session.ID, path, once} {
		m.Write([]byte(part))
		m.Write([]byte{0})
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
