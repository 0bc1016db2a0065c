package awsapi

import (
	"errors"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Reply has the contents of an error response of AWS. Code is empty or "UnknownError" when
// something other than the service answered, such as a proxy.
type Reply struct {
	Code   string
	Status int
	Header http.Header
}

// ReplyOf returns the Reply of an error; ok is false when there was no error response.
func ReplyOf(err error) (r Reply, ok bool) {
	if api, is := errors.AsType[smithy.APIError](err); is {
		r.Code, ok = api.ErrorCode(), true
	}
	if resp, is := errors.AsType[*smithyhttp.ResponseError](err); is && resp.Response != nil {
		r.Status, r.Header = resp.Response.StatusCode, resp.Response.Header
	}
	return r, ok && r.Status != 0
}

// Throttled reports whether the service limits the rate.
func (r Reply) Throttled() bool {
	_, named := retry.DefaultThrottleErrorCodes[r.Code]
	return named || r.Status == http.StatusTooManyRequests
}

// ownFault are refusals of ebb's own credentials.
var ownFault = []string{"ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "SignatureDoesNotMatch", "InvalidAccessKeyId",
	"InvalidSignatureException", "RequestExpired", "AuthFailure", "MissingAuthenticationToken", "UnrecognizedClientException"}

// OwnFault reports whether the service refused ebb's own credentials.
func (r Reply) OwnFault() bool { return slices.Contains(ownFault, r.Code) }

// Named reports whether the response has an error code, so that it comes from the service
// itself.
func (r Reply) Named() bool { return r.Code != "" && r.Code != "UnknownError" }

// Judged reports whether the service understood a call and refused it. After a timeout (408) the
// effect of the call is unknown.
func Judged(err error) bool {
	r, ok := ReplyOf(err)
	return ok && (r.Throttled() || r.Named() && r.Status >= 400 && r.Status < 500 && r.Status != http.StatusRequestTimeout)
}
