// Package kms wraps data keys with a key in AWS KMS
// (https://docs.aws.amazon.com/kms/latest/APIReference/). Each data key is encrypted under an
// encryption context that names this installation and the data key. KMS decrypts it under the same
// context only, the key policy can require the context, and CloudTrail logs it.
//
// ebb calls KMS at the start, once a month for the next data key, and every ten minutes for the
// state of its key. A key that is disabled or scheduled for deletion is noticed while data keys in
// use still hide it.
//
//	config.go   Config and its checks
//	kms.go      Wrapper: Wrap, Unwrap
//	state.go    Stale and Check: the answers of DescribeKey, cached
//	errors.go   errors of KMS with the operator's next step; pauses after failures
package kms
