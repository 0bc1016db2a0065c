// Package providertest is the suite that every provider kind passes.
//
// Run tests the contract of provider.Driver sentence by sentence. ScopesFor tests the
// scopes that are for a request.
package providertest
