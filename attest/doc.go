// Package attest defines how evidence becomes an identity. A caller sends evidence
// about its environment, such as a signed token, and an Attestor returns an Identity.
//
// An Evidence holds the document, and what the listener observed of the caller.
// SelectorMatch compares the Identity with the selectors that the runner registered. A
// kind may implement more interfaces: Challenger, ClientAuth, Personal, Registrar,
// Selecting, Reattester and Watcher. A rejection has one of a fixed set of reasons.
// Nonces are the nonces of challenges and need no storage.
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
