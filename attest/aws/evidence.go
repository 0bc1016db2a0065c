package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
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

var tokenForm = lazyregexp.New(`^[A-Za-z0-9+/=]*$`)

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
var authorizationForm = lazyregexp.New(`^AWS4-HMAC-SHA256 Credential=((?:AKIA|ASIA)[A-Z0-9]{12,124})/([0-9]{8})/([a-z0-9-]{1,32})/sts/aws4_request, ` +
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

var codeForm = lazyregexp.New(`^[A-Za-z]{1,64}$`)

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

// caller is the identity of the signer as STS reports it.
type caller struct {
	Account string `json:"Account"`
	ARN     string `json:"Arn"`
	UserID  string `json:"UserId"`
}

// The kinds of callers, as ARNs name them.
const (
	kindRole      = "assumed-role"
	kindUser      = "user"
	kindFederated = "federated-user"
)

// instanceRole is the instance identity role, which EC2 gives to every instance. No
// account can create a role with this name, because a colon is not allowed in one.
const instanceRole = "aws:ec2-instance"

// principal has the parts of a caller.
type principal struct {
	caller
	kind string
	role string // kindRole
	// name is the name of the session, of the user without its path, or of the
	// federated user.
	name string
	// id is the id of the role (AROA...) or user (AIDA...). AWS never reuses these ids.
	id string
}

var (
	arnForm      = lazyregexp.New(`^arn:(aws|aws-cn|aws-us-gov):(sts|iam)::([0-9]{12}):([a-z-]{1,32})/(.{1,600})$`)
	nameForm     = lazyregexp.New(`^[A-Za-z0-9_+=,.@-]{2,64}$`)
	userForm     = lazyregexp.New(`^(?:[!-.0-~]{1,512}/)*[A-Za-z0-9_+=,.@-]{1,64}$`)
	roleIDForm   = lazyregexp.New(`^AROA[A-Z0-9]{12,124}$`)
	userIDForm   = lazyregexp.New(`^AIDA[A-Z0-9]{12,124}$`)
	instanceForm = lazyregexp.New(`^i-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)
)

var errCaller = errors.New("the account, the ARN and the user id in the response of STS contradict each other or have an unknown form")

// parse splits the response of STS into its parts. A response with an unknown form
// gives an error that is not a rejection.
func (c caller) parse(partition string) (principal, error) {
	m := arnForm.FindStringSubmatch(c.ARN)
	if m == nil && c.ARN == "arn:"+partition+":iam::"+c.Account+":root" {
		return principal{}, attest.Reject(attest.ReasonClaims, "the credentials belong to the root user of an account; use those of a role", nil)
	}
	if m == nil || m[1] != partition || m[3] != c.Account {
		return principal{}, errCaller
	}
	p := principal{caller: c, kind: m[4], name: m[5]}
	ok := false
	switch m[2] + " " + m[4] {
	case "sts " + kindRole:
		p.role, p.name, _ = strings.Cut(m[5], "/")
		p.id, _, _ = strings.Cut(c.UserID, ":")
		ok = nameForm.MatchString(p.name) && roleForm.MatchString(p.role) && roleIDForm.MatchString(p.id) && c.UserID == p.id+":"+p.name
		if p.role == instanceRole {
			p.id = ""
			ok = instanceForm.MatchString(p.name) && c.UserID == c.Account+":"+instanceRole+":"+p.name
		}
	case "iam " + kindUser:
		ok = userForm.MatchString(p.name) && userIDForm.MatchString(c.UserID)
		p.name, p.id = p.name[strings.LastIndexByte(p.name, '/')+1:], c.UserID
	case "sts " + kindFederated:
		ok = nameForm.MatchString(p.name) && c.UserID == c.Account+":"+p.name
	}
	if !ok {
		return principal{}, errCaller
	}
	return p, nil
}

// selectors returns the facts that a runner may register.
func (p principal) selectors(region string, ec2Roles []string) map[string]string {
	out := map[string]string{"account": p.Account, "arn": p.ARN, "user_id": p.UserID, "region": region}
	if p.id != "" {
		out["principal_id"] = p.id
	}
	if p.kind == kindUser {
		out["user"] = p.name
	}
	if p.kind != kindRole {
		return out
	}
	out["role"], out["session"] = p.role, p.name
	if instanceForm.MatchString(p.name) && (p.role == instanceRole || slices.Contains(ec2Roles, p.Account+"/"+p.role)) {
		out["instance_id"] = p.name
	}
	return out
}
