// Package clientcert parses TLS client certificates (RFC 8446 section 4.4.2): a certificate chain
// and its private key in one PEM text.
//
//	parse.go        Parse and its checks
//	certificate.go  Certificate: the chain for TLS, with the private key kept out of logs
//
// The package uses no store and no network. It reports every certificate that TLS could not use,
// because servers only answer with a failed handshake.
package clientcert
