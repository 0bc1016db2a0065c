package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ebb/attest"
	"ebb/attest/fetch"
)

// The request, but for what the caller signs.
const (
	headerNonce  = "x-ebb-nonce"
	headerIssuer = "x-ebb-issuer"
	body         = "Action=GetCallerIdentity&Version=2011-06-15"
	bodySHA256   = "ab821ae955788b0e33ebd34c208442ccfc2d406e2edc5e7a39bd6458fbb4f843"
	contentType  = "application/x-www-form-urlencoded"
)

// maxAnswer is far above the 500 bytes of an answer.
const maxAnswer = 16 << 10

// ask sends the request that the caller signed, built anew.
func (a *Attestor) ask(ctx context.Context, s shown, auth authorization) (caller, error) {
	h := http.Header{}
	h.Set("Accept", "application/json")
	h.Set("Authorization", auth.String())
	h.Set("Content-Type", contentType)
	h.Set("X-Amz-Date", s.Date)
	h.Set(headerNonce, s.Nonce)
	h.Set(headerIssuer, a.cfg.Issuer)
	if s.Token != "" {
		h.Set("X-Amz-Security-Token", s.Token)
	}
	if auth.signs("x-amz-content-sha256") {
		h.Set("X-Amz-Content-Sha256", bodySHA256)
	}
	answer, err := a.places[s.Region].Do(ctx, fetch.Request{Method: http.MethodPost, Header: h, Body: []byte(body)})
	if err != nil {
		return caller{}, err
	}
	return readAnswer(answer.Status, answer.Body)
}

// identityAnswer is what STS says with 200 when asked for JSON.
type identityAnswer struct {
	Response struct {
		Result   caller         `json:"GetCallerIdentityResult"`
		Metadata jsontext.Value `json:"ResponseMetadata"`
	} `json:"GetCallerIdentityResponse"`
}

// errorAnswer is what STS says with other statuses.
type errorAnswer struct {
	Error struct {
		Code    string         `json:"Code"`
		Type    string         `json:"Type"`
		Message jsontext.Value `json:"Message"`
	} `json:"Error"`
	RequestID jsontext.Value `json:"RequestId"`
}

var codeForm = regexp.MustCompile(`^[A-Za-z]{1,64}$`)

// readAnswer believes an answer in STS's own form and no other: whatever else may
// answer for it, a proxy or a page of an error, has judged nothing.
func readAnswer(status int, b []byte) (caller, error) {
	switch status {
	case http.StatusOK:
		var a identityAnswer
		if err := json.Unmarshal(b, &a, json.RejectUnknownMembers(true)); err != nil {
			return caller{}, errors.New("the answer of STS has not the form of GetCallerIdentity's")
		}
		return a.Response.Result, nil
	case http.StatusForbidden:
		var a errorAnswer
		if err := json.Unmarshal(b, &a, json.RejectUnknownMembers(true)); err != nil || !codeForm.MatchString(a.Error.Code) || a.Error.Type != "Sender" {
			return caller{}, errors.New("the refusal of STS has not the form of one")
		}
		return caller{}, refused(a.Error.Code)
	}
	return caller{}, fmt.Errorf("STS answers with status %d", status)
}

// refused is 403 with a word of STS's own, which only whoever signed can cause.
func refused(code string) error {
	cause := errors.New("STS: " + code)
	switch code {
	case "ExpiredToken", "ExpiredTokenException", "RequestExpired":
		return attest.Reject(attest.ReasonExpired, "STS does not accept the request: the credentials or the signature have expired", cause)
	case "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId":
		return attest.Reject(attest.ReasonKeyUnknown, "STS does not know the credentials that signed, or they are not active", cause)
	}
	return attest.Reject(attest.ReasonSignature, "STS does not accept the signature: sign the exact request for this ebb, region and nonce", cause)
}
