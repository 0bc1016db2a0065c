package redact

// Limits for one secret: bytes of its forms for each byte of it, in bodies; and numbers of forms,
// in bodies and in names.
const (
	formsPerByte = 5
	formsAtMost  = 3
	namesAtMost  = 8
)

// Cost returns the maximum memory of a Redactor for secrets of these lengths, in bytes. Building it
// takes twice as much in addition.
func Cost(secrets ...string) int {
	const link, row = 20, 4<<9 + 12
	cost := 2 * (row + skipBytes)
	for _, s := range secrets {
		// The first two states of a form have rows, and the state where it branches from another
		// form.
		cost += (formsPerByte*len(s)+namesAtMost*maxInName)*link + (formsAtMost+namesAtMost)*(rowDepth+1)*row
	}
	return cost
}
