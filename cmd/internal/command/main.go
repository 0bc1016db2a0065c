package command

import (
	"fmt"
	"io"
	"strings"
)

// Report prints err and its next step, and returns the exit code of the program.
// started is whether a command's own code ran: an error before that means that
// cobra rejected the arguments.
func Report(w io.Writer, program string, err error, started bool) Exit {
	code := ExitOf(err)
	if !started {
		code = ExitUsage
	}
	fmt.Fprintf(w, "%s: %s\n", program, strings.TrimRight(Explain(err), "\n"))
	if next := NextStep(program, err, code); next != "" {
		fmt.Fprintf(w, "  -> %s\n", next)
	}
	return code
}
