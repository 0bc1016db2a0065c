package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// A cursor is a place in a list, signed together with the list and its filter: one of
// another list or filter, or one that somebody made up, is none. It belongs to nobody,
// so that the address of a page can be sent to somebody else.

func (s *Console) sealCursor(list, place string) string {
	return base64.RawURLEncoding.EncodeToString(append(s.cursorMAC(list, place), place...))
}

const cursorMAC = 16 // bytes of a MAC that are kept

func (s *Console) openCursor(list, cursor string) (place string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < cursorMAC {
		return "", false
	}
	place = string(raw[cursorMAC:])
	return place, hmac.Equal(raw[:cursorMAC], s.cursorMAC(list, place))
}

func (s *Console) cursorMAC(list, place string) []byte {
	m := hmac.New(sha256.New, s.cfg.Key)
	m.Write([]byte(strings.Join([]string{"cursor", list, place}, "\x00")))
	return m.Sum(nil)[:cursorMAC]
}
