package box

// Status is what the first process of a box says on the descriptor that the kind gives it:
// when it waits to be let go on, when the command runs, and when that has ended. One JSON
// object a line.
type Status struct {
	Waiting bool   `json:"waiting,omitempty"`
	Running bool   `json:"running,omitempty"`
	Ended   bool   `json:"ended,omitempty"`
	Code    int    `json:"code,omitempty"`  // as Code says
	Error   string `json:"error,omitempty"` // it could not be run, and why
}
