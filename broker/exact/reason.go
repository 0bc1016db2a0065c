package exact

// Reason is why something was refused: one word of a fixed set, fit for a metric's
// label and for the answer to a sandbox.
type Reason string

// Reasons.
const (
	BadHost        Reason = "bad_host"        // no name that everybody reads alike
	IPLiteral      Reason = "ip_literal"      // an address where a name belongs
	BadPort        Reason = "bad_port"        //
	AmbiguousPath  Reason = "ambiguous_path"  //
	AmbiguousQuery Reason = "ambiguous_query" //
	BadMethod      Reason = "bad_method"      //
	BadHeader      Reason = "bad_header"      // it would make this another request, or end it elsewhere
)

// Error is a refusal. Neither part holds anything of what was read.
type Error struct {
	Reason Reason
	Why    string // half a sentence: "its path ..."
}

// Error implements error.
func (e *Error) Error() string { return e.Why }

func refuse(r Reason, why string) error { return &Error{Reason: r, Why: why} }
