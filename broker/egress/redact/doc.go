// Package redact finds secrets in the responses of an upstream and replaces them by marks before a
// sandbox gets the response. It searches streams of any length, wherever they are split, and finds
// the encodings in which servers echo their input.
//
// A Redactor is built from the secrets to find. Their forms are one automaton, which takes one step
// per byte (Aho and Corasick, 1975) and skips the parts of a text in which no form begins (Wu and
// Manber, 1994). Cost says how much memory it needs before it is built.
//
// A search reads a text as it stands, and with its escapes resolved: those of URLs,
// quoted-printable, JSON and HTML, at one level and at two. Runs of base64, base16 and UTF-16 are
// decoded and searched again. Parts that are too short for a secret are left out. Readers do this
// for streams; in a WebSocket the lengths stay.
//
// Named finds secrets that ebb does not know, by the names that stand before their values.
//
// The package is a detector, not a security boundary. An upstream that wants to disclose a secret
// can reverse it, or send it byte by byte in many responses. A secret is protected because only its
// own upstream gets it, in a request that the rules allow, and because it is revoked with the task.
package redact
