package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// sign returns the value of webhook-signature: one signature for each key, separated by
// spaces.
func (s *Sender) sign(id string, at time.Time, body []byte) string {
	signed := append([]byte(id+"."+stamp(at)+"."), body...)
	var out []string
	for _, key := range s.hmac {
		m := hmac.New(sha256.New, key)
		m.Write(signed)
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)))
	}
	if s.ed25519 != nil {
		out = append(out, "v1a,"+base64.StdEncoding.EncodeToString(ed25519.Sign(s.ed25519, signed)))
	}
	return strings.Join(out, " ")
}

func stamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
