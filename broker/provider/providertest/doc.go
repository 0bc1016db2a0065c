// Package providertest is the suite that every provider kind passes.
//
//	suite.go  Run: the contract of provider.Driver, sentence by sentence
package providertest
