package redact

// Bounds of what one secret has: bytes of all its forms for one byte of it, and beside that,
// and forms. The longest are escapes, six bytes for one.
const (
	formsPerByte = 86
	formsBeside  = 32
	formsAtMost  = 27
)

// Cost is what a Redactor of secrets takes of memory at most, in bytes, as their lengths say:
// of text it takes about half of that. While it is built it takes twice as much again.
func Cost(secrets ...string) int {
	const link, row = 20, 4<<9 + 8
	cost := row + skipBytes
	for _, s := range secrets {
		states := formsPerByte*len(s) + formsBeside
		// Rows have the first two states of a form, and that in which it leaves another.
		cost += states*link + formsAtMost*(rowDepth+1)*row
	}
	return cost
}
