package wire

// ServerMetadata is the authorization server metadata document (RFC 8414 section 2). Members without elements are left
// out by the server, except ResponseTypes, which RFC 8414 requires.
type ServerMetadata struct {
	// Issuer is ebb's public base URL.
	Issuer string `json:"issuer"`
	// AuthorizationEndpoint refuses every request: there is no authorization code flow. Clients refuse a document without it.
	AuthorizationEndpoint string `json:"authorization_endpoint"`
	// TokenEndpoint takes TokenForm.
	TokenEndpoint string `json:"token_endpoint"`
	// JWKSURI is the address of JWKS.
	JWKSURI string `json:"jwks_uri"`
	// IntrospectionEndpoint takes IntrospectionForm.
	IntrospectionEndpoint string `json:"introspection_endpoint"`
	// RevocationEndpoint takes RevocationForm.
	RevocationEndpoint string `json:"revocation_endpoint"`
	// BackchannelEndpoint takes BackchannelForm (CIBA Core section 4).
	BackchannelEndpoint string `json:"backchannel_authentication_endpoint"`
	// BackchannelModes is poll (CIBA Core section 4).
	BackchannelModes []string `json:"backchannel_token_delivery_modes_supported"`
	// GrantTypes are the Grant constants.
	GrantTypes []string `json:"grant_types_supported"`
	// ResponseTypes is empty.
	ResponseTypes []string `json:"response_types_supported"`
	// ChallengeMethods is S256 (RFC 7636 section 6.2). Clients refuse a document without it.
	ChallengeMethods []string `json:"code_challenge_methods_supported"`
	// Scopes are the roles that a principal's token for /v1 may have.
	Scopes []string `json:"scopes_supported"`
	// TokenAuth are the authentication methods of the token endpoint (RFC 8414 section 2).
	TokenAuth []string `json:"token_endpoint_auth_methods_supported"`
	// TokenAuthAlgs are the JWS algorithms of client assertions at the token endpoint.
	TokenAuthAlgs []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	// IntrospectionAuth are the authentication methods of the introspection endpoint.
	IntrospectionAuth []string `json:"introspection_endpoint_auth_methods_supported"`
	// IntrospectionAuthAlgs are the JWS algorithms of client assertions at the introspection endpoint.
	IntrospectionAuthAlgs []string `json:"introspection_endpoint_auth_signing_alg_values_supported"`
	// RevocationAuth are the authentication methods of the revocation endpoint.
	RevocationAuth []string `json:"revocation_endpoint_auth_methods_supported"`
	// RevocationAuthAlgs are the JWS algorithms of client assertions at the revocation endpoint.
	RevocationAuthAlgs []string `json:"revocation_endpoint_auth_signing_alg_values_supported"`
	// DPoPAlgs are the JWS algorithms of DPoP proofs (RFC 9449 section 5.1).
	DPoPAlgs []string `json:"dpop_signing_alg_values_supported"`
	// DetailTypes is DetailType (RFC 9396 section 10).
	DetailTypes []string `json:"authorization_details_types_supported"`
	// MutualTLS says that tokens can be bound to a client certificate (RFC 8705 section 3.3).
	MutualTLS bool `json:"tls_client_certificate_bound_access_tokens,omitempty"`
	// ProtectedResources are the resources that ebb issues tokens for (RFC 9728 section 4).
	ProtectedResources []string `json:"protected_resources"`
	// ServiceDocumentation is the address of the OpenAPI document.
	ServiceDocumentation string `json:"service_documentation"`
}

// ResourceMetadata is the protected resource metadata document of /v1 (RFC 9728 section 2).
type ResourceMetadata struct {
	// Resource is <issuer>/v1.
	Resource string `json:"resource"`
	// AuthorizationServers is the issuer.
	AuthorizationServers []string `json:"authorization_servers"`
	// Scopes are the roles that a token may have.
	Scopes []string `json:"scopes_supported"`
	// BearerMethods is header: a token is sent in the header Authorization only (RFC 6750 section 2.1).
	BearerMethods []string `json:"bearer_methods_supported"`
	// ResourceName is a name for people.
	ResourceName string `json:"resource_name"`
	// DPoPAlgs are the JWS algorithms of DPoP proofs.
	DPoPAlgs []string `json:"dpop_signing_alg_values_supported"`
	// MutualTLS says that tokens can be bound to a client certificate.
	MutualTLS bool `json:"tls_client_certificate_bound_access_tokens,omitempty"`
	// Documentation is the address of the OpenAPI document.
	Documentation string `json:"resource_documentation"`
}

// JWKS is the set of public keys that verify ebb's own tokens, receipts and checkpoints (RFC 7517 section 5).
type JWKS struct {
	// Keys are the key that signs now, the keys that will sign, and those whose signatures are still in use.
	Keys []JWK `json:"keys"`
}

// JWK is one public signing key (RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section 2).
type JWK struct {
	// Type is EC, OKP or RSA.
	Type string `json:"kty"`
	// ID is the kid of the signatures that the key made.
	ID string `json:"kid"`
	// Use is always sig.
	Use string `json:"use"`
	// Alg is the one algorithm that the key signs with.
	Alg string `json:"alg"`
	// Curve is the curve of an EC or OKP key.
	Curve string `json:"crv,omitempty"`
	// X is the x coordinate of an EC key or the public key of an OKP key, base64url.
	X string `json:"x,omitempty"`
	// Y is the y coordinate of an EC key, base64url.
	Y string `json:"y,omitempty"`
	// N is the modulus of an RSA key, base64url.
	N string `json:"n,omitempty"`
	// E is the exponent of an RSA key, base64url.
	E string `json:"e,omitempty"`
}
