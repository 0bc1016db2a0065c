package keys

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

const (
	keyHead   = "ebb signing key, version "
	version   = "1"
	keyPEM    = "PRIVATE KEY"
	timeShape = time.RFC3339
)

// encodeKey is the stored form: explanatory text that PEM readers skip (RFC
// 7468, section 5.2), so that `openssl pkey` reads the same file, then PKCS#8.
// One file and not two, because two cannot be written atomically.
func encodeKey(k Key) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.Signer)
	if err != nil {
		return nil, fmt.Errorf("keys: encode: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s\nalg: %s\nkid: %s\ncreated: %s\nactive_from: %s\nretire_at: %s\n",
		keyHead, version, k.Alg, k.KID, k.Created.Format(timeShape), k.ActiveFrom.Format(timeShape), k.RetireAt.Format(timeShape))
	if err := pem.Encode(&b, &pem.Block{Type: keyPEM, Bytes: der}); err != nil {
		return nil, fmt.Errorf("keys: encode: %w", err)
	}
	return b.Bytes(), nil
}

// decodeKey is the inverse of encodeKey: each accepted text re-encodes to the same bytes. Its
// errors never quote the file, which holds a private key.
func decodeKey(text []byte) (Key, error) {
	head, _, found := strings.Cut(string(text), "-----BEGIN")
	v, isKey := strings.CutPrefix(head, keyHead)
	v, _, _ = strings.Cut(v, "\n")
	switch {
	case len(text) == 0:
		return Key{}, errors.New("it is empty")
	case !isKey:
		return Key{}, errors.New("it is not a signing key of ebb")
	case v != version:
		return Key{}, errors.New("it was written by a newer ebb: run that version")
	case !found:
		return Key{}, errors.New("it is cut off")
	}
	var dates [3]time.Time
	for i, name := range []string{"created", "active_from", "retire_at"} {
		t, err := headTime(head, name)
		if err != nil {
			return Key{}, err
		}
		dates[i] = t
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyPEM {
		return Key{}, errors.New("it is cut off or damaged")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Key{}, errors.New("its private key is damaged")
	}
	signer, ok := private.(jose.Signer)
	if !ok {
		return Key{}, errors.New("its private key cannot sign")
	}
	k, err := NewKey(signer, dates[0], dates[1], dates[2])
	if err != nil {
		return Key{}, err
	}
	again, err := encodeKey(k)
	if err != nil {
		return Key{}, err
	}
	if !bytes.Equal(again, text) {
		return Key{}, errors.New("its head and its key do not belong together, or it was changed by hand")
	}
	return k, nil
}

func headTime(head, name string) (time.Time, error) {
	_, rest, _ := strings.Cut(head, "\n"+name+": ")
	value, _, _ := strings.Cut(rest, "\n")
	t, err := time.Parse(timeShape, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("its %s is not a date", name)
	}
	return t, nil
}
