// Package clientcerttest makes client certificates for tests, and an authority that servers
// know them by.
//
//	clientcerttest.go  Authority: its certificates as ebb keeps them
package clientcerttest
