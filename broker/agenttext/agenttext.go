package agenttext

// Untrusted is text that left a sandbox.
type Untrusted struct{ raw string }
