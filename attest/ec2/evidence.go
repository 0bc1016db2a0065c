package ec2

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/attest"
)

// maxShown is the maximum size of evidence. A document of AWS takes about 2 KiB.
const maxShown = 16 << 10

// shown is the document of the evidence.
type shown struct {
	Nonce string `json:"nonce"`
	// RSA2048 is the response of the metadata service at instance-identity/rsa2048, on
	// one line.
	RSA2048 string `json:"rsa2048"`
}

// readShown decodes a document strictly: only known members, each once, and no other
// data.
func readShown(doc []byte) (shown, error) {
	if len(doc) > maxShown {
		return shown{}, attest.Reject(attest.ReasonOversized, "the evidence is larger than 16 KiB", nil)
	}
	var s shown
	if len(doc) < 2 || doc[0] != '{' || doc[len(doc)-1] != '}' {
		return shown{}, malformed("the evidence is not a JSON object", nil)
	}
	if err := json.Unmarshal(doc, &s, json.RejectUnknownMembers(true)); err != nil {
		return shown{}, malformed("the evidence is not a JSON object of nonce and rsa2048 alone", err)
	}
	return s, nil
}

// signed parses the SignedData. It verifies nothing.
func (s shown) signed() (signedData, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(s.RSA2048)
	if err != nil || strings.ContainsAny(s.RSA2048, "\r\n") { // the decoder skips line ends
		return signedData{}, malformed("rsa2048 is not base64 on one line: remove the line ends of the metadata service's answer", err)
	}
	return readSigned(raw)
}

func malformed(public string, cause error) error {
	return attest.Reject(attest.ReasonMalformed, public, cause)
}
