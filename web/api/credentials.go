package api

import (
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
)

// credentials serves the grant client_credentials for three callers: an
// enrolled sandbox, a workload whose assertion is its own evidence (it then
// names its task), or a principal.
func (a *API) credentials(t tokenCall) (broker.Token, error) {
	ch := a.channel(t.c.Request())
	if t.cl.assertion == "" {
		t.cl.method = a.certified(t, ch)
	}
	switch {
	case t.cl.assertion == "" && t.cl.method == "":
		return broker.Token{}, broker.E(broker.Unauthenticated, "Authenticate with client_assertion (private_key_jwt).", nil)
	case t.cl.sandbox():
		return a.request(t, broker.Subject{TaskID: t.f.get(pTaskID), Assertion: t.cl.assertion, ClientID: t.cl.id, Channel: ch, Fault: broker.Unauthenticated})
	case t.cl.method != "", t.f.has(pTaskID):
		return a.request(t, evidence(t.cl.assertion, "", t.f, t.cl, ch, broker.Unauthenticated))
	}
	ctx := t.c.Request().Context()
	asked, err := a.rolesAsked(t.f)
	if err != nil {
		// An authentication error takes precedence over an error in the
		// parameters.
		if _, authErr := a.b.AuthenticateAssertion(ctx, t.cl.assertion, t.cl.id, t.p); authErr != nil {
			return broker.Token{}, authErr
		}
		return broker.Token{}, err
	}
	return a.b.PrincipalToken(ctx, t.cl.assertion, t.p, t.cl.id, asked...)
}

// certified returns the attestors' method that accepts the client certificate
// alone. It returns "" when the request has no certificate or task_id, or no
// such method exists.
func (a *API) certified(t tokenCall, ch attest.Channel) string {
	if len(ch.PeerCertificates) == 0 || !t.f.has(pTaskID) {
		return ""
	}
	for _, m := range a.methods {
		if m.AssertionType == "" {
			return m.Name
		}
	}
	return ""
}

// rolesAsked reads a principal's request. The resource may only be this
// broker's own API. The scope is a list of roles; without a scope the token
// gets all roles of the principal.
func (a *API) rolesAsked(f *form) ([]broker.Role, error) {
	for _, r := range append(f.resources, f.audiences...) {
		if r != a.issuer+"/v1" {
			return nil, broker.E(broker.InvalidTarget, "A principal can get tokens for "+a.issuer+"/v1 only.", nil)
		}
	}
	if f.has(pAuthorizationDetails) {
		return nil, broker.E(broker.InvalidDetails, "authorization_details are not supported for this API. Use scope with a list of roles.", nil)
	}
	if !f.has(pScope) {
		return nil, nil
	}
	var asked []broker.Role
	for role := range strings.SplitSeq(f.get(pScope), " ") {
		if !slices.Contains(roles(), broker.Role(role)) {
			return nil, broker.E(broker.InvalidScope, "The scope of a principal's token must be a list of roles.", nil)
		}
		asked = append(asked, broker.Role(role))
	}
	return asked, nil
}

func roles() []broker.Role {
	return []broker.Role{broker.RoleRunner, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleResourceServer, broker.RoleViewer}
}
