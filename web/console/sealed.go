package console

import (
	"bytes"
	"compress/flate"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"github.com/ebb-broker/ebb/broker/approval"
	"io"
	"strings"
)

// A form contains a signed snapshot of its page. The evidence stored with a
// decision is therefore the page that the person saw, and not the page as it
// would be when the form arrives.

var errSealed = errors.New("the snapshot is not one that this console showed to this person")

// sealShown returns the signed snapshot as one form field.
func (pg *pages) sealShown(sh shown) (string, error) {
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
	return text + "." + pg.shownMAC(text), nil
}

// openShown reads such a field. It accepts only a snapshot of this request that
// was shown to this person.
func (pg *pages) openShown(v *visit, id, field string) (out shown, raw string, err error) {
	text, mac, found := strings.Cut(field, ".")
	if !found || !hmac.Equal([]byte(mac), []byte(pg.shownMAC(text))) {
		return out, "", errSealed
	}
	packed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return out, "", err
	}
	b, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), approval.MaxSeen+1))
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

func (pg *pages) shownMAC(text string) string {
	m := hmac.New(sha256.New, pg.key)
	m.Write([]byte("shown\x00" + text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
