package aws

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/attest"
)

// shown is the document of the evidence: the parts of a signed request that the caller
// chooses. It has no host, URL, method, body or header name.
type shown struct {
	Nonce         string `json:"nonce"`
	Region        string `json:"region"`
	Authorization string `json:"authorization"`
	Date          string `json:"x_amz_date"`
	Token         string `json:"x_amz_security_token"`
}

// Limits in bytes. AWS promises no maximum for session tokens; observed ones are below
// 4 KiB.
const (
	maxShown = 16 << 10
	maxToken = 8 << 10
)

// dateForm is the format of X-Amz-Date.
const dateForm = "20060102T150405Z"

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9+/=]*$`)

// readShown decodes a document strictly: only known members, each once, and no other
// data.
func readShown(doc []byte) (shown, error) {
	malformed := func(public string, cause error) (shown, error) {
		return shown{}, attest.Reject(attest.ReasonMalformed, public, cause)
	}
	if len(doc) > maxShown {
		return shown{}, attest.Reject(attest.ReasonOversized, "the evidence is larger than 16 KiB", nil)
	}
	var s shown
	if len(doc) < 2 || doc[0] != '{' || doc[len(doc)-1] != '}' {
		return malformed("the evidence is not a JSON object", nil)
	}
	if err := json.Unmarshal(doc, &s, json.RejectUnknownMembers(true)); err != nil {
		return malformed("the evidence is not a JSON object of nonce, region, authorization, x_amz_date and x_amz_security_token alone", err)
	}
	if len(s.Token) > maxToken || !tokenForm.MatchString(s.Token) {
		return malformed("x_amz_security_token is not a session token", nil)
	}
	return s, nil
}

// signedAt parses X-Amz-Date.
func (s shown) signedAt() (time.Time, error) {
	at, err := time.Parse(dateForm, s.Date)
	if err != nil || at.Format(dateForm) != s.Date { // Parse also accepts fractions of a second
		return time.Time{}, attest.Reject(attest.ReasonMalformed, "x_amz_date does not have the form 20060102T150405Z", err)
	}
	return at, nil
}

// authorization is a parsed Authorization header of Signature Version 4.
type authorization struct {
	accessKey, date, region string
	signed                  []string
	signature               string
}

// authorizationForm matches the header as AWS's SDKs write it, with one space after
// each comma.
var authorizationForm = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=((?:AKIA|ASIA)[A-Z0-9]{12,124})/([0-9]{8})/([a-z0-9-]{1,32})/sts/aws4_request, ` +
	`SignedHeaders=([a-z0-9;-]{1,256}), Signature=([0-9a-f]{64})$`)

// The headers that must be signed and those that may be signed. ebb sends no others.
var (
	mustSign = []string{"host", "x-amz-date", headerIssuer, headerNonce}
	maySign  = append([]string{"content-length", "content-type", "x-amz-content-sha256", "x-amz-security-token"}, mustSign...)
)

// readAuthorization parses an Authorization header. It accepts one spelling only.
func readAuthorization(text string) (authorization, error) {
	m := authorizationForm.FindStringSubmatch(text)
	if m == nil {
		return authorization{}, errors.New("the Authorization is not AWS4-HMAC-SHA256 with a credential scope of sts, SignedHeaders and Signature")
	}
	a := authorization{accessKey: m[1], date: m[2], region: m[3], signed: strings.Split(m[4], ";"), signature: m[5]}
	for i, h := range a.signed {
		if !slices.Contains(maySign, h) {
			return authorization{}, errors.New("SignedHeaders has a header that ebb does not send")
		}
		if i > 0 && a.signed[i-1] >= h {
			return authorization{}, errors.New("SignedHeaders is not sorted or has a duplicate")
		}
	}
	for _, h := range mustSign {
		if !a.signs(h) {
			return authorization{}, errors.New("SignedHeaders lacks " + h)
		}
	}
	return a, nil
}

func (a authorization) signs(header string) bool { return slices.Contains(a.signed, header) }

// String returns the header, equal to the parsed text.
func (a authorization) String() string {
	return "AWS4-HMAC-SHA256 Credential=" + a.accessKey + "/" + a.date + "/" + a.region + "/sts/aws4_request, SignedHeaders=" +
		strings.Join(a.signed, ";") + ", Signature=" + a.signature
}

// temporary reports whether the key belongs to a session. Only sessions have a session
// token.
func (a authorization) temporary() bool { return strings.HasPrefix(a.accessKey, "ASIA") }
