// Package attest defines how evidence becomes an identity. A caller sends evidence
// about its environment, such as a signed token, and an Attestor returns an Identity.
//
//	evidence.go     Evidence: the document, and what the listener observed of the caller
//	identity.go     Identity, Class, Attestor; Decode: reads a kind's configuration
//	selector.go     SelectorMatch: compares an identity with the registered selectors
//	capabilities.go interfaces that a kind may also implement: Challenger, ClientAuth,
//	                Personal, Registrar, Selecting, Reattester, Watcher
//	nonce.go        Nonces: nonces of challenges that need no storage
//	context.go      Costly: permission for expensive work; Passed: a trace of checks
//	errors.go       ErrRejected and the fixed set of reasons
//
// Each folder below is one kind, such as enroll and oidc, with exceptions: package all
// lists the kinds, attesttest is the test suite that every kind passes, kubetest is for
// tests, and jose, dpop, fetch, clock and options are libraries.
//
// # What a kind must not do
//
// A kind judges one piece of evidence and nothing else. The broker's pipeline does the
// steps that all kinds share, in this order, so that no kind can forget one:
//
//  1. Proof of possession: before Attest, the pipeline checks the DPoP proof or the
//     client certificate and sets Evidence.Key. A kind may require that its evidence
//     names that key (Identity.Key). It does not verify possession itself.
//  2. Attest.
//  3. Key binding: Identity.Key, when set, must equal Evidence.Key.
//  4. Replay: Identity.ReplayID is claimed for Evidence.Key until ReplayUntil.
//     The first use binds the key: later uses with the same key are allowed
//     (workload tokens are legitimately cached and reused), uses with another
//     key are refused.
//  5. SelectorMatch with the selectors that the runner registered for the task.
package attest
