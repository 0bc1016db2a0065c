package box

// Status is a report of the first process of a sandbox: that it waits for its
// release, that the command runs, or that the command has ended. Each report is
// one line of JSON on a descriptor that the kind passes to it.
type Status struct {
	Waiting bool   `json:"waiting,omitempty"`
	Running bool   `json:"running,omitempty"`
	Ended   bool   `json:"ended,omitempty"`
	Code    int    `json:"code,omitempty"`  // exit code, as returned by Code
	Error   string `json:"error,omitempty"` // why the command could not be started
}
