package console

import (
	"bytes"
	"compress/flate"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"ebb/broker"
)

// A form carries what its page showed, sealed: what is kept with a decision is then what
// was drawn, and not what would be drawn by the time the form comes.

var errSealed = errors.New("not what a page of this console showed to this person")

// sealShown puts what was shown into one field.
func (s *Console) sealShown(sh shown) (string, error) {
	raw, err := json.Marshal(sh)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(raw); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(b.Bytes())
	return text + "." + s.shownMAC(text), nil
}

// openShown reads such a field: only what was shown to this person of this request.
func (s *Console) openShown(v *visit, id, field string) (out shown, raw string, err error) {
	text, mac, found := strings.Cut(field, ".")
	if !found || !hmac.Equal([]byte(mac), []byte(s.shownMAC(text))) {
		return out, "", errSealed
	}
	packed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return out, "", err
	}
	b, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), broker.MaxSeen+1))
	if err != nil {
		return out, "", err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, "", err
	}
	if out.For != v.ID || out.Request != id {
		return out, "", errSealed
	}
	return out, string(b), nil
}

func (s *Console) shownMAC(text string) string {
	m := hmac.New(sha256.New, s.cfg.Key)
	m.Write([]byte("shown\x00" + text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
