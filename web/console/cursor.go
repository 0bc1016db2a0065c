package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// A cursor is a position in a list, signed together with the list and its
// filter. A cursor of another list or filter, or a forged one, is rejected. It
// is not bound to a person, so that people can share the address of a page.

func (pg *pages) sealCursor(list, place string) string {
	return base64.RawURLEncoding.EncodeToString(append(pg.cursorMAC(list, place), place...))
}

const cursorMAC = 16 // length of the truncated MAC in bytes

func (pg *pages) openCursor(list, cursor string) (place string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < cursorMAC {
		return "", false
	}
	place = string(raw[cursorMAC:])
	return place, hmac.Equal(raw[:cursorMAC], pg.cursorMAC(list, place))
}

func (pg *pages) cursorMAC(list, place string) []byte {
	m := hmac.New(sha256.New, pg.key)
	m.Write([]byte(strings.Join([]string{"cursor", list, place}, "\x00")))
	return m.Sum(nil)[:cursorMAC]
}
