package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
)

// The parts of the request that the caller does not sign as its own.
const (
	headerNonce  = "x-ebb-nonce"
	headerIssuer = "x-ebb-issuer"
	body         = "Action=GetCallerIdentity&Version=2011-06-15"
	bodySHA256   = "ab821ae955788b0e33ebd34c208442ccfc2d406e2edc5e7a39bd6458fbb4f843"
	contentType  = "application/x-www-form-urlencoded"
)

// maxAnswer is the maximum size of a response. Usual responses have 500 bytes.
const maxAnswer = 16 << 10

// ask builds the request that the caller signed and sends it to STS.
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

// identityAnswer is the response of STS with status 200, as JSON.
type identityAnswer struct {
	Response struct {
		Result   caller         `json:"GetCallerIdentityResult"`
		Metadata jsontext.Value `json:"ResponseMetadata"`
	} `json:"GetCallerIdentityResponse"`
}

// errorAnswer is the response of STS with another status.
type errorAnswer struct {
	Error struct {
		Code    string         `json:"Code"`
		Type    string         `json:"Type"`
		Message jsontext.Value `json:"Message"`
	} `json:"Error"`
	RequestID jsontext.Value `json:"RequestId"`
}

var codeForm = regexp.MustCompile(`^[A-Za-z]{1,64}$`)

// readAnswer parses the response. A response without STS's own format, such as an error
// page of a proxy, gives an error that is not a rejection.
func readAnswer(status int, b []byte) (caller, error) {
	switch status {
	case http.StatusOK:
		var a identityAnswer
		if err := json.Unmarshal(b, &a, json.RejectUnknownMembers(true)); err != nil {
			return caller{}, errors.New("the response of STS does not have the format of GetCallerIdentity")
		}
		return a.Response.Result, nil
	case http.StatusForbidden:
		var a errorAnswer
		if err := json.Unmarshal(b, &a, json.RejectUnknownMembers(true)); err != nil || !codeForm.MatchString(a.Error.Code) || a.Error.Type != "Sender" {
			return caller{}, errors.New("the error response of STS does not have the documented format")
		}
		return caller{}, refused(a.Error.Code)
	}
	return caller{}, fmt.Errorf("STS answered with status %d, want 200 or 403", status)
}

// refused returns the rejection for an error code that STS sends with status 403. Only
// the signer's credentials or signature can cause these codes.
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
