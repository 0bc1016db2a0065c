// Package provider is the contract between the broker and the drivers that mint credentials. The
// broker passes a Grant to a driver, and the driver returns a Credential.
//
//	provider.go  Driver (Check, Mint, Revoke, Traits), Grant, Credential, Target, and
//	             the optional capabilities Injector, Prober, Lister, Runner, Checker and
//	             Certifier
//	errors.go    the error classes of Mint and Check: unsupported, refused, busy
//	http.go      an HTTP client for provider APIs: no redirects, a timeout, complete bodies, no
//	             proxy for client certificates, a size limit for bodies; certificate authorities
//	connect.go   Connector: sessions in protocols other than HTTP; RequireAuth for PostgreSQL;
//	             Reacher: hosts that are reached by SSH
//	effect.go    Describer: the effect of a scope, and whether it can be undone
//	grants.go    scopes that the configuration names one by one; those for a place
//	inject.go    Presenter: client certificates; headers that hold credentials; placeholders
//	disclosed.go   secret members of responses
//	sealing.go   AnswerSealer: responses with credentials that stay in ebb
//	sealroute.go  the routes of such responses in a configuration
//	name.go      the name of a lease's object at a provider
//	secret.go    CanInject: whether egress can add a secret to requests;
//	             SecretStore keeps secrets that outlive the process
//
// Each subdirectory is one kind of provider. Package all lists them, and providertest is the test
// suite of every kind. The broker does the shared security steps (scope algebra, limits of the
// lifetime, write-ahead entries, audit log), so that no driver can omit one.
package provider
