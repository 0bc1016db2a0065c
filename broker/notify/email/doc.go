// Package email hands messages over to a mail server (RFC 5321), as plain text (RFC 5322).
//
//	config.go  Options, Config, New
//	mail.go    the mail: headers and text
//	dial.go    the connection: encrypted, or on loopback
//	send.go    one conversation with the server
//
// Nothing leaves this machine unencrypted: TLS from the start or STARTTLS, whatever the
// server says it can do, and a password only after that. A mail is plain text, from words
// of the contract alone; it cannot be answered, and answers no machine (RFC 3834).
package email
