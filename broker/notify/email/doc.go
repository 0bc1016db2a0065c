// Package email delivers messages to a mail server (RFC 5321), as plain text (RFC 5322).
//
//	config.go  Options, Config, New
//	mail.go    the mail: headers and text
//	send.go    one conversation with the server, encrypted or on loopback
//
// Every connection that leaves this machine is encrypted, by TLS from the start or
// STARTTLS, regardless of the server's announced capabilities; a password is sent only
// after that. A mail is plain text from the texts of package notify. It cannot be
// answered, and it is marked so that no automatic reply comes (RFC 3834).
package email
