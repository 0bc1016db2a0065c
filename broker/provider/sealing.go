package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// AnswerSealer is an Injector of which some answers make a credential that the sandbox goes on to
// use: the token of a token endpoint. It stays in ebb, under a lease of its own that is a part of
// the one by which the request left, and the sandbox gets a placeholder in its place. Inject adds
// it to requests when the Target's Handle is one of Sealing.Handle. Traits.Seals says that there are
// such answers.
type AnswerSealer interface {
	// Seals returns the parts of the response to seal, or nil. Inject has accepted the request.
	// Responses to requests with a sealed credential are not sealed.
	Seals(*http.Request, Target) *Sealing
}

// Sealing selects the credentials in one response and describes the leases for them.
type Sealing struct {
	Members  []string      // of the JSON object that the answer is: strings, of which any may be missing
	Scopes   scopes.Set    // what the credential may be used for: covered by those of the Target; empty = it may not be made
	Lifetime time.Duration // of one whose answer has no expires_in (RFC 6749 section 5.1)
	Header   string        // that it is added in
	Prefix   string        // that stands before it there: "Bearer "
}

// Sealed is a credential that an answer has made, and how it is added to requests.
type Sealed struct {
	Header, Prefix string
	Value          secret.Secret
}

// sealedForm is a Sealed as a handle holds it.
type sealedForm struct {
	Header string `json:"header"`
	Prefix string `json:"prefix"`
	Value  string `json:"value"`
}

// Handle is a value of the answer as Inject works from it.
func (s Sealing) Handle(value secret.Secret) secret.Secret {
	text, err := json.Marshal(sealedForm{s.Header, s.Prefix, value.Reveal()})
	if err != nil { // strings alone: it cannot be
		return secret.Secret{}
	}
	return secret.New(string(text))
}

// OpenSealed reads such a handle.
func OpenSealed(handle secret.Secret) (Sealed, error) {
	var f sealedForm
	if json.Unmarshal([]byte(handle.Reveal()), &f) != nil || f.Header == "" || f.Value == "" {
		return Sealed{}, errors.New("provider: the handle holds no credential of an answer") // of the parser's own words none
	}
	return Sealed{f.Header, f.Prefix, secret.New(f.Value)}, nil
}

// AddTo puts it into a request.
func (s Sealed) AddTo(r *http.Request) { SetHeader(r, s.Header, s.Prefix+s.Value.Reveal()) }
