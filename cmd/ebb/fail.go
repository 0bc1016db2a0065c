package main

import "github.com/ebb-broker/ebb/cmd/internal/command"

// Short names of package command for the errors and exit codes of this package's
// commands.
type (
	exit    = command.Exit
	failure = command.Failure
)

const (
	exitOK          = command.ExitOK
	exitFailure     = command.ExitFailure
	exitUsage       = command.ExitUsage
	exitRefused     = command.ExitRefused
	exitPending     = command.ExitPending
	exitUnavailable = command.ExitUnavailable
)

// usage is an error that the user's input caused.
func usage(text, next string) error { return command.Usage(text, next) }

// fail is every other error that the command detects itself.
func fail(text, next string) error { return command.Fail(text, next) }

// exitOf maps an error to an exit code.
func exitOf(err error) exit { return command.ExitOf(err) }

// explain formats an error for a person.
func explain(err error) string { return command.Explain(err) }

// nextStep returns the next step for err, "" if the error already names it.
func nextStep(err error, code exit) string { return command.NextStep("ebb", err, code) }
