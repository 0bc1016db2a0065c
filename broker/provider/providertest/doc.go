// Package providertest is the test suite for every kind of provider.
//
// Run tests the contract of provider.Driver sentence by sentence. ScopesFor tests the scopes
// that a driver names for a request.
package providertest
