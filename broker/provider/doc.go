// Package provider is the contract between the broker and the drivers that mint credentials. The
// broker passes a Grant to a driver, and the driver returns a Credential.
//
// A Driver checks, mints and revokes. It may have more capabilities: Injector, Prober, Lister,
// Runner, Checker, Certifier, Connector (sessions in protocols other than HTTP), Reacher (hosts
// that are reached by SSH), Describer (the effect of a scope), Presenter (client certificates),
// Discloser and AnswerSealer (responses with credentials that stay in ebb). The errors of Mint
// and Check have three classes: unsupported, refused and busy.
//
// Drivers share an HTTP client without redirects and with bounded bodies, the scopes that a
// configuration names, the names of objects at a provider, and the headers that hold credentials.
//
// Each subdirectory is one kind of provider. Package all lists them, and providertest is the test
// suite of every kind. The broker does the shared security steps (scope algebra, limits of the
// lifetime, write-ahead entries, audit log), so that no driver can omit one.
package provider
