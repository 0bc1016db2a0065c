// Package sealtest is the suite that every kind of wrapping key passes.
//
//	suite.go  Suite and Run
package sealtest
