// Package clientcert reads client certificates: what a client shows in TLS (RFC 8446 section
// 4.4.2), chain and private key in one text of PEM.
//
//	parse.go        Parse: what is taken, and why all else is not
//	certificate.go  Certificate: what to show, and what nobody may see
//
// It knows no store and no network. What cannot be shown is an error here, not later at a
// server that says nothing but no.
package clientcert
