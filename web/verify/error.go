package verify

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/scopes"
)

// Code is the error code of a challenge: RFC 6750 section 3.1, RFC 9449
// section 7.1.
type Code string

// The codes. A request without credentials and an unavailable verifier have
// none.
const (
	InvalidRequest    Code = "invalid_request"
	InvalidToken      Code = "invalid_token"
	InsufficientScope Code = "insufficient_scope"
	InvalidProof      Code = "invalid_dpop_proof"
	UseNonce          Code = "use_dpop_nonce"
)

// Error is the reason for refusing a request. Public contains nothing from the
// request.
type Error struct {
	Status     int           // HTTP status
	Code       Code          // "" = no error attribute
	Public     string        // one sentence, ASCII, without quotes
	Scope      scopes.Set    // with InsufficientScope: the required scopes
	RetryAfter time.Duration // with 429 and 503
	cause      error
	bearer     bool // the request used the Bearer scheme, and so does the challenge
}

// Error implements error; it is for logs.
func (e *Error) Error() string {
	s := "verify: " + e.Public
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the cause, which is for logs.
func (e *Error) Unwrap() error { return e.cause }

func refuse(code Code, public string, cause error) *Error {
	status := http.StatusUnauthorized
	switch code {
	case InvalidRequest:
		status = http.StatusBadRequest
	case InsufficientScope:
		status = http.StatusForbidden
	}
	return &Error{Status: status, Code: code, Public: public, cause: cause}
}

// doubt is the error when the token can be neither accepted nor rejected.
func doubt(public string, cause error) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Public: public, RetryAfter: 2 * time.Second, cause: cause}
}

// Challenge returns the WWW-Authenticate value for e; "" for a status without a
// challenge.
func (v *Verifier) Challenge(e *Error) string {
	if e.Status != http.StatusUnauthorized && e.Status != http.StatusForbidden && e.Status != http.StatusBadRequest {
		return ""
	}
	var b strings.Builder
	attr := func(name, value string) {
		if value != "" {
			b.WriteString(", " + name + `="` + value + `"`)
		}
	}
	scheme := "DPoP"
	if e.bearer {
		scheme = "Bearer"
	}
	b.WriteString(scheme + ` realm="` + v.cfg.Resource + `"`)
	if e.Code != "" {
		attr("error", string(e.Code))
		attr("error_description", plain(e.Public))
	}
	scope := e.Scope
	if e.Status == http.StatusUnauthorized {
		scope = v.cfg.Scopes
	}
	attr("scope", scope.String())
	if !e.bearer {
		attr("algs", algNames(v.cfg.DPoPAlgs))
	}
	attr("resource_metadata", v.metadata)
	return b.String()
}

func algNames(algs []jose.Alg) string {
	names := make([]string, len(algs))
	for i, a := range algs {
		names[i] = string(a)
	}
	return strings.Join(names, " ")
}

// plain removes characters that error_description must not contain (RFC 6750
// section 3).
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, s)
}

// WriteError sends the response for a request that Verify refused: the
// challenge, and a problem document (RFC 9457) with the same sentence. An error
// other than *Error is a 500 without text.
func (v *Verifier) WriteError(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Status: http.StatusInternalServerError, cause: err}
	}
	if e.Status >= 500 {
		v.cfg.Log.Warn("request not verified", slog.Any("error", e))
	}
	h := w.Header()
	if c := v.Challenge(e); c != "" {
		h.Set("WWW-Authenticate", c)
	}
	if n := v.nonce(); n != "" {
		h.Set("DPoP-Nonce", n)
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{"about:blank", http.StatusText(e.Status), e.Status, e.Public})
}
