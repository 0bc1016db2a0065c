// Package providertest is the suite that every provider kind passes.
//
//	suite.go  Run: the contract of provider.Driver, sentence by sentence
//	scopes.go  ScopesFor: that of which scopes are for a request
package providertest
