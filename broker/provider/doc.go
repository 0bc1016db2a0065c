// Package provider is the contract between the broker and whatever mints a
// credential: a grant goes in, a credential comes out.
//
//	provider.go  Driver (Check, Mint, Revoke, Class), Grant, Credential, and the
//	             optional capabilities Injector and Prober
//	secret.go    Secret: a credential that cannot be printed by accident
//
// Each sub-folder is one kind of provider; all lists them; providertest is the
// suite that every kind runs. Shared security steps (scope algebra, clamping of
// the lifetime, write-ahead record, audit) are the broker's and not a driver's,
// so that no driver can forget one.
package provider
