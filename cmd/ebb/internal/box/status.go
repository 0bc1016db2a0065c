package box

// Status is what the first process of a box says on the descriptor that the kind gives it:
// once when the command runs, once when it has ended. One JSON object a line.
type Status struct {
	Running bool   `json:"running,omitempty"`
	Ended   bool   `json:"ended,omitempty"`
	Code    int    `json:"code,omitempty"`   // of an exit
	Signal  int    `json:"signal,omitempty"` // that it died of
	Error   string `json:"error,omitempty"`  // it could not be run, and why
}
