package api

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/scopes"
)

// Token types (RFC 8693 section 3).
const (
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeIDToken     = "urn:ietf:params:oauth:token-type:id_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
	typeTask        = "urn:ebb:params:oauth:token-type:task"
)

// enrolled is the name of the attestor that verifies task tokens, which the
// broker issues itself.
const enrolled = "enroll"

const (
	maxReason = 4000 // limit of the reason in code points
	maxTool   = 64
)

// ask reads the parameters of a token request. The caller sets the subject.
func ask(f *form) (broker.TokenRequest, error) {
	var r broker.TokenRequest
	if t := f.get(pRequestedTokenType); t != "" && t != typeAccessToken && t != typeJWT {
		return r, malformed("requested_token_type must be absent, access_token or jwt.")
	}
	var err error
	if r.Scopes, r.Details, err = rights(f); err != nil {
		return r, err
	}
	for _, raw := range f.resources {
		uri, err := scopes.ParseResource(raw)
		if err != nil {
			return r, broker.E(broker.InvalidTarget, "A resource is malformed: "+where(err), nil)
		}
		r.Resources = append(r.Resources, uri)
	}
	r.Audiences = f.audiences
	if r.TTL, err = lifetime(f.get(pRequestedExpiry)); err != nil {
		return r, err
	}
	for mode := range strings.SplitSeq(f.get(pCompletionMode), " ") {
		r.Deferred = r.Deferred || mode == "deferred"
	}
	if r.Tool = f.get(pTool); len(r.Tool) > maxTool {
		return r, malformed("tool must have at most 64 characters.")
	}
	r.PublicKey, r.Delivery, r.Content = f.get(pPublicKey), f.get(pDelivery), f.get(pContent)
	if r.Reason, err = agenttext.New(f.get(pReason), maxReason); err != nil {
		return r, malformed("reason must be text of at most 4000 characters.")
	}
	return r, nil
}

// rights merges scope and authorization_details (RFC 9396 section 3.1).
func rights(f *form) (set scopes.Set, detailed bool, err error) {
	set, err = scopes.ParseSet(f.get(pScope))
	if err != nil {
		return set, false, broker.E(broker.InvalidScope, "The scope is malformed: "+where(err), nil)
	}
	raw := f.get(pAuthorizationDetails)
	if raw == "" {
		return set, false, nil
	}
	details, err := scopes.ParseDetails([]byte(raw))
	if err != nil {
		return set, true, broker.E(broker.InvalidDetails, "authorization_details cannot be parsed. Send an array of ebb_credential objects with provider, identifier and actions.", err)
	}
	for _, d := range details {
		if d.Location == "" {
			continue
		}
		// A location is equivalent to a resource indicator.
		if !slices.Contains(f.resources, d.Location) {
			f.resources = append(f.resources, d.Location)
		}
		if len(f.resources) > maxTargets {
			return set, true, broker.E(broker.InvalidTarget, "The request names more than 8 resources and audiences.", nil)
		}
	}
	more, err := scopes.SetOf(details)
	if err == nil {
		set, err = scopes.Merge(set, more)
	}
	if err != nil {
		return set, true, broker.E(broker.InvalidDetails, "authorization_details and scope together exceed the limits of a scope.", err)
	}
	return set, true, nil
}

// where describes the position of a syntax error without the input, which err
// itself repeats: a token in the wrong field must not appear in a response or
// in a log.
func where(err error) string {
	e, ok := errors.AsType[*scopes.ParseError](err)
	if !ok {
		return "write provider:resource:action."
	}
	return "byte " + strconv.Itoa(e.Pos) + ": " + e.Want + "."
}

// lifetime reads requested_expiry: whole seconds (CIBA Core section 7.1).
func lifetime(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n == 0 {
		return 0, malformed("requested_expiry must be a positive whole number of seconds.")
	}
	return time.Duration(n) * time.Second, nil
}

// evidence returns the subject of a workload that presents its own credential.
func evidence(document, attestor string, f *form, cl client, ch attest.Channel, fault broker.Kind) broker.Subject {
	return broker.Subject{
		TaskID:   f.get(pTaskID),
		Evidence: &attest.Evidence{Attestor: attestor, Document: []byte(document), Method: cl.method, ClientAssertion: cl.assertion != "", Channel: ch},
		ClientID: cl.id, Channel: ch, Fault: fault,
	}
}

// exchanged reads the subject of a token exchange (RFC 8693 section 2.1).
// person is the ID token of a person who does not act for a task, or "".
func exchanged(f *form, cl client, ch attest.Channel) (s broker.Subject, person string, err error) {
	token, kind := f.get(pSubjectToken), f.get(pSubjectTokenType)
	switch {
	case token == "" || kind == "":
		return s, "", malformed("subject_token and subject_token_type are required.")
	case f.has(pActorToken) != f.has(pActorTokenType):
		return s, "", malformed("actor_token and actor_token_type go together.")
	case f.has(pActorToken):
		return s, "", malformed("actor_token is not accepted: the actor is the sandbox that proves its key.")
	case cl.assertion != "":
		// A second proof of identity is unnecessary, and the two could
		// disagree.
		return s, "", malformed("Send no client_assertion with a token exchange: the subject token and the DPoP proof of its key authenticate the client.")
	}
	const fault = broker.Invalid // RFC 8693 section 2.2.2, not invalid_grant
	switch kind {
	case typeTask:
		return evidence(token, enrolled, f, cl, ch, fault), "", nil
	case typeJWT:
		if taskToken(token) {
			return evidence(token, enrolled, f, cl, ch, fault), "", nil
		}
		return evidence(token, "", f, cl, ch, fault), "", nil
	case typeIDToken:
		if !f.has(pTaskID) {
			return s, token, nil
		}
		return evidence(token, "", f, cl, ch, fault), "", nil
	case typeAccessToken:
		return broker.Subject{TaskID: f.get(pTaskID), AccessToken: token, ClientID: cl.id, Channel: ch, Fault: fault}, "", nil
	}
	return s, "", malformed("This subject_token_type is not supported.")
}
