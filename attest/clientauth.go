package attest

// ClientAuth is an Attestor whose evidence is a method of OAuth client
// authentication: a workload gets tokens for its task with what it has anyway.
type ClientAuth interface {
	Attestor
	// ClientMethods are the methods that this instance takes; none is possible.
	ClientMethods() []ClientMethod
}

// ClientMethod is one method. Its name is registered for
// token_endpoint_auth_methods_supported (RFC 8414, section 2).
type ClientMethod struct {
	Name string
	// AssertionType is the client_assertion_type of its document (RFC 7521, section
	// 4.2); "" when the client certificate is all of it.
	AssertionType string
}
