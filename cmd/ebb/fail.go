package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"ebb/broker"
	"ebb/cmd/ebb/internal/config"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// exit is how the process ends.
type exit int

// Exit codes; documented in `ebb --help`.
const (
	exitOK          exit = 0
	exitFailure     exit = 1
	exitUsage       exit = 2
	exitRefused     exit = 3
	exitPending     exit = 4
	exitUnavailable exit = 5
)

// failure is an error that knows its exit code and what to do next.
type failure struct {
	code exit
	said string
	next string
}

func (f *failure) Error() string { return f.said }

// usage is the user's mistake.
func usage(said, next string) error { return &failure{exitUsage, said, next} }

// fail is everything else that a command finds by itself.
func fail(said, next string) error { return &failure{exitFailure, said, next} }

// exitOf maps an error to an exit code.
func exitOf(err error) exit {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return exitUsage
	}
	p, answered := errors.AsType[*client.Problem](err)
	if !answered {
		if _, ok := errors.AsType[net.Error](err); ok || errors.Is(err, context.DeadlineExceeded) || distrusted(err) {
			return exitUnavailable
		}
		return exitFailure
	}
	switch p.Kind {
	case broker.Denied, broker.Forbidden, broker.StepUpRequired, broker.Unauthenticated, broker.InvalidGrant, broker.InvalidEvidence, broker.InvalidProof,
		broker.InvalidScope, broker.InvalidTarget, broker.InvalidDetails, "invalid_token", "insufficient_scope":
		return exitRefused
	case broker.Pending, broker.SlowDown, broker.ExpiredRequest, broker.AskRequired:
		return exitPending
	case broker.Unavailable, broker.TooMany:
		return exitUnavailable
	}
	if p.Status >= http.StatusInternalServerError {
		return exitUnavailable
	}
	return exitFailure
}

// distrusted reports a server whose certificate was refused.
func distrusted(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// explain is an error for a person. What a server said is drawn, not obeyed;
// our own lists of problems keep their lines.
func explain(err error) string {
	if ps, ok := errors.AsType[config.Problems](err); ok {
		return ps.Error()
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.said
	}
	return out.Line(err.Error())
}

// nextStep says what to do about err.
func nextStep(err error, code exit) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.next
	}
	if _, ok := errors.AsType[config.Problems](err); ok {
		return "" // each has its own remedy
	}
	p, answered := errors.AsType[*client.Problem](err)
	if answered && p.Advice != nil && !p.Advice.WouldAllow.Empty() {
		return "this much needs nobody: --scope \"" + p.Advice.WouldAllow.String() + "\""
	}
	if answered && p.Kind == broker.StepUpRequired && p.Page != "" {
		return "approve it at " + p.Page
	}
	if answered && p.Detail != "" {
		return "" // the answer's own sentence says it
	}
	if distrusted(err) {
		return "name the CA of ebb's certificate with --ca-file or EBB_CA_FILE; is --url what the certificate is for?"
	}
	switch code {
	case exitUsage:
		return "`ebb help` and `ebb COMMAND --help` show the words"
	case exitUnavailable:
		return "is `ebb serve` running there? `ebb doctor` looks; --url or EBB_URL names another ebb"
	case exitPending:
		return "a person has to decide: `ebb requests list`, or wait with --wait"
	}
	return "`ebb doctor` checks the deployment"
}
