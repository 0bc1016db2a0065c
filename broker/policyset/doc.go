// Package policyset holds policy sets: drafts that people write and review, and the releases that
// they publish. Package policy decides requests by a set. Package broker decides which person may
// change or publish one.
//
//	files.go    File and its bounds; Check reports every problem of a text, with its line
//	draft.go    Draft, and the digest that the publisher signs; Release, a published set; InForce,
//	            the set that decides now
//	patch.go    Patch: a draft as a unified diff, for policies that are kept in files
//	compare.go  Compare: the changes of a draft, policy by policy
package policyset
