// Package kernel holds the parts that every area of the broker uses: the clock and how far it
// can be trusted, the audit recorder, admission, the set of revoked ids, the caller of a
// request, and the metrics.
//
// Admission is the one round trip to the LiveStore with which each request begins: it claims
// the proof of possession and the evidence, counts the rates and reads the task. It fails
// closed.
//
// The package imports the types of package broker and no area.
package kernel
