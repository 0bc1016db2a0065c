package broker

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"ebb/broker/provider"
)

// codePrefix marks deferral codes. A code is the request's id, a name of the key it
// works with, and an HMAC of both: nothing needs to be read to recognise it and to
// refuse another key, and a repeated first request gets the same one.
const codePrefix = "ebb_dfr_"

func (b *Broker) codeOf(requestID string, k provider.Binding) provider.Secret {
	return b.codeFor(requestID, keyName(k))
}

func (b *Broker) codeFor(requestID, key string) provider.Secret {
	text := strings.TrimPrefix(requestID, requestPrefix) + "_" + key
	m := hmac.New(sha256.New, b.codeKey)
	m.Write([]byte(text))
	return provider.NewSecret(codePrefix + text + "_" + hex.EncodeToString(m.Sum(nil)))
}

// keyName is the same length for every key and has no "_".
func keyName(k provider.Binding) string {
	sum := sha256.Sum256([]byte(k.JKT + " " + k.X5T))
	return hex.EncodeToString(sum[:16])
}

// requestOfCode is the inverse of codeOf; is reports whether code is genuine. key
// names the key it works with.
func (b *Broker) requestOfCode(code string) (id, key string, is bool) {
	rest, ok := strings.CutPrefix(code, codePrefix)
	if !ok {
		return "", "", false
	}
	part := strings.Split(rest, "_")
	id = requestPrefix + part[0]
	if len(part) != 3 || !validID(requestPrefix, id) {
		return "", "", false
	}
	return id, part[1], b.codeFor(id, part[1]).Equal(provider.NewSecret(code))
}
