// Package kms wraps data keys with a key that never leaves AWS KMS. Each data key is
// encrypted under a context that names this installation and the data key: it opens
// for nothing else, the key's policy can insist on it, and CloudTrail shows it.
//
// KMS is asked at the start, once a month for the next data key, and every ten
// minutes how its key is: a key that is disabled, or that somebody has scheduled for
// deletion, is noticed while the data keys in use still hide it.
//
//	config.go   Config, and what is wrong with one
//	kms.go      Wrapper: Wrap, Unwrap
//	state.go    Stale and Check: what DescribeKey says, and for how long
//	errors.go   KMS's answers, and what to do about them; leaving it alone
package kms
