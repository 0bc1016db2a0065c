package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"ebb/broker/exact"
)

// Reasons beside those of package exact.
const (
	NotAllowed   exact.Reason = "not_allowed"      // no credential of the caller is for this request
	Metadata     exact.Reason = "metadata_address" // it leads to where a cloud hands out credentials
	Private      exact.Reason = "private_address"  // it leads into a network that is not the internet
	Self         exact.Reason = "self"             // it leads to ebb, or to the machine that ebb runs on
	Unresolved   exact.Reason = "unresolved"       // its name leads nowhere
	Unreachable  exact.Reason = "upstream_unreachable"
	NotTunnelled exact.Reason = "not_tunnelled"          // it is not inside of CONNECT and TLS
	Misdirected  exact.Reason = "misdirected"            // it is for another host than its tunnel, or a page of another site asks a way out
	NoCredential exact.Reason = "no_credential"          // its placeholder is none of the caller's, or over
	Certificate  exact.Reason = "client_certificate"     // the upstream wants a client certificate and takes none, or not the one there is; or that cannot be shown
	BadAnswer    exact.Reason = "bad_answer"             // what came back is not what the protocol allows, or cannot be read for secrets
	NotTLS       exact.Reason = "not_tls"                // what is in its tunnel is no TLS for its host
	NotSSH       exact.Reason = "not_ssh"                // what is in its tunnel begins as SSH and is none, or its server's answer is
	TooOften     exact.Reason = "rate_limited"           // its task sends too many requests
	BadBody      exact.Reason = "bad_body"               // its body is not framed as RFC 9112 section 7 says
	TooMuch      exact.Reason = "too_much"               // its body is too large, or its task has sent enough
	Crowded      exact.Reason = "too_many_connections"   // its task has its part of the connections that there are
	NoRecord     exact.Reason = "record_unavailable"     // it cannot be put on the record: later, perhaps
	NoTranscript exact.Reason = "transcript_unavailable" // a rule wants it written down, and that cannot be: later, perhaps
	Doubt        exact.Reason = "unavailable"            // nobody can say whether it may: later, perhaps
)

// Reasons for which an answer that makes a credential is withheld.
const (
	SealTooLarge    exact.Reason = "seal_too_large"    // it is longer than what is read
	SealNotJSON     exact.Reason = "seal_not_json"     // it is no JSON object
	SealAmbiguous   exact.Reason = "seal_ambiguous"    // a name is there twice, a member under a name like its own or in another one, or marks break the object
	SealBadValue    exact.Reason = "seal_bad_value"    // a member is no string that could be added to a request
	SealBadLifetime exact.Reason = "seal_bad_lifetime" // expires_in is no whole number of seconds above 0
)

// Denial is why a request does not go out. Only the Reason goes back to the sandbox;
// it never says where a name leads.
type Denial struct {
	Reason exact.Reason
	Cause  error // for the log; may be nil
}

// Error implements error.
func (d *Denial) Error() string {
	if d.Cause == nil {
		return string(d.Reason)
	}
	return fmt.Sprintf("%s: %v", d.Reason, d.Cause)
}

// Unwrap gives the cause.
func (d *Denial) Unwrap() error { return d.Cause }

func deny(r exact.Reason, cause error) error { return &Denial{Reason: r, Cause: cause} }

// unquoted is an error of an upstream that may go to the log. Those of parsers quote what
// they cannot read, and an upstream that repeats what it got repeats a credential: of them
// only the type is said.
func unquoted(err error) error {
	var denial *Denial
	var network net.Error
	var certificate *tls.CertificateVerificationError
	plain := []error{nil, io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded, ErrOver, ErrBox}
	if slices.Contains(plain, err) || errors.As(err, &denial) || errors.As(err, &network) || errors.As(err, &certificate) {
		return err
	}
	return &unreadable{err}
}

// unreadable is the error of an answer that is not what it should be.
type unreadable struct{ cause error }

// Error implements error.
func (u *unreadable) Error() string {
	return fmt.Sprintf("the upstream's answer cannot be read (%T)", u.cause)
}

// Unwrap gives the cause.
func (u *unreadable) Unwrap() error { return u.cause }
