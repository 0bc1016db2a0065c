// Package policyset holds policy sets as people write, judge and publish them. What a
// set decides is package policy's; who may do what with one is the broker's.
//
//	files.go    File, their bounds, and Check: every problem of a text, with its line
//	draft.go    Draft, and the digest that a person signs who publishes it
//	release.go  Release: a set that was published; InForce: the one that decides
//	patch.go    Patch: a draft taken out, for where files are kept
//	compare.go  Compare: policy by policy, what a draft changes
package policyset
