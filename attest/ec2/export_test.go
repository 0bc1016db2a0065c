package ec2

import (
	"encoding/base64"
)

// Read parses a SignedData and its document as Attest does, without verifying them.
func Read(raw []byte) (content []byte, selectors map[string]string, err error) {
	d, err := shown{RSA2048: base64.StdEncoding.EncodeToString(raw)}.signed()
	if err != nil {
		return nil, nil, err
	}
	doc, err := readDocument(d.content)
	if err != nil {
		return d.content, nil, err
	}
	return d.content, doc.selectors(), nil
}
