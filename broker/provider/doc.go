// Package provider is the contract between the broker and whatever mints a
// credential: a grant goes in, a credential comes out.
//
//	provider.go  Driver (Check, Mint, Revoke, Traits), Grant, Credential, Target, and
//	             the optional capabilities Injector, Prober, Lister, Runner, Checker and
//	             Certifier
//	errors.go    what Mint and Check may say: unsupported, refused, busy
//	secretfile.go  files that hold secrets
//	http.go      a client for APIs: no redirect, in time, no half answers, no proxy that is shown its
//	             certificate; certificate authorities
//	connect.go   Connector: sessions in a protocol of their own
//	bounded.go   answers that libraries read have an end
//	reach.go     Reacher: hosts that are reached by SSH
//	effect.go    Describer: what a scope lets its holder do, and can it be undone
//	grants.go    scopes that the configuration names one by one
//	inject.go    Presenter: client certificates; headers that hold credentials
//	disclosed.go   what their answers may hold that is secret
//	sealing.go   AnswerSealer: answers that make credentials which stay in ebb
//	sealroute.go  their routes, as configurations name them
//	name.go      the name of a lease's object at a provider
//	placeholder.go  what stands for a credential that stays in ebb
//	safe.go      Safe: secrets of the operator that outlive the process
//	secret.go    Secret: a credential that cannot be printed by accident
//
// Each sub-folder is one kind of provider; all lists them; providertest is the
// suite that every kind runs. Shared security steps (scope algebra, clamping of
// the lifetime, write-ahead record, audit) are the broker's and not a driver's,
// so that no driver can forget one.
package provider
