package scopes

import "fmt"

// maxNear is the maximum length of the refused input in an error: enough to find the mistake, too
// little to smuggle text.
const maxNear = 64

// ParseError names the position at which an input violates the grammar, and what is allowed there.
// The caller is at fault.
type ParseError struct {
	What string // what was parsed: "scope", "scope set", "resource URI"
	Pos  int    // byte offset into the input, 0-based
	Want string // what is allowed at Pos
	Near string // the input around Pos: at most 64 printable ASCII characters, everything else shown as "?"
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%s: byte %d of %q: %s", e.What, e.Pos, e.Near, e.Want)
}

func refuse(what, input string, pos int, want string) *ParseError {
	start := max(0, min(pos, len(input))-maxNear/2)
	end := min(len(input), start+maxNear)
	near := []byte(input[start:end])
	for i, c := range near {
		if c < 0x20 || c > 0x7e {
			near[i] = '?'
		}
	}
	return &ParseError{What: what, Pos: pos, Want: want, Near: string(near)}
}

// shift moves an error of a part to its position in the whole input.
func (e *ParseError) shift(what, input string, by int) *ParseError {
	return refuse(what, input, e.Pos+by, e.Want)
}
