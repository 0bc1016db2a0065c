// Package redact finds secrets in what an upstream answers and puts a mark in their
// place, before the answer goes back to a sandbox: in streams of any length, wherever
// they are cut, and in the forms that servers give what they echo.
//
//	forms.go      the forms of a secret that are looked for
//	automaton.go  all of them as one automaton, a step for each byte (Aho and Corasick, 1975)
//	skip.go       what of a text need not be read for it (Wu and Manber, 1994)
//	trie.go       what they have in common at their beginnings
//	redact.go     Redactor: texts
//	cost.go       what one takes, before it is made
//	reader.go     streams
//	frames.go     streams of a WebSocket, in which lengths stay
//	named.go      Named: values by what they are called, which nobody has seen before
//	parser.go     texts with names in them
//	value.go      what stands behind a name
//
// It is a detector and no boundary. An upstream that wants to give a secret away can
// turn it round, or send it byte by byte in many answers; what keeps a secret is that
// only the upstream it is for ever gets it, in a request that its rules allow, and that
// it dies with the task.
package redact
