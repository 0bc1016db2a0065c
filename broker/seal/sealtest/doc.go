// Package sealtest is the test suite for every kind of wrapping key.
//
//	suite.go  Suite and Run
package sealtest
