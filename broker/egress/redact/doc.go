// Package redact finds secrets in the responses of an upstream and replaces them by marks before a
// sandbox gets the response. It searches streams of any length, wherever they are split, and finds
// the encodings in which servers echo their input.
//
//	redact.go     Redactor: the secrets to find, and the text that is searched
//	search.go     search of one text, including its escapes
//	stretch.go    parts of a text that are long enough for a secret
//	escapes.go    one escape: of URLs, quoted-printable, JSON, HTML
//	spelling.go   escapes of one level and of two
//	paths.go      texts that can be read in several ways
//	alphabet.go   base64 and base16
//	runs.go       text in base64, base16 or UTF-16: decoded and searched again
//	names.go      names of header fields, in any case
//	automaton.go  the secrets as one automaton, one step per byte (Aho and Corasick, 1975)
//	skip.go       parts of a text that need not be read (Wu and Manber, 1994)
//	trie.go       common beginnings of patterns
//	cost.go       memory of a Redactor, before it is built
//	reader.go     streams
//	frames.go     streams of a WebSocket, whose lengths stay
//	named.go      Named: values of given names, for secrets that ebb does not know
//	parser.go     texts with names in them
//	value.go      values after a name
//
// The package is a detector, not a security boundary. An upstream that wants to disclose a secret
// can reverse it, or send it byte by byte in many responses. A secret is protected because only its
// own upstream gets it, in a request that the rules allow, and because it is revoked with the task.
package redact
