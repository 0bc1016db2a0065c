// Package attest is the contract between evidence and identity: a caller shows
// what its environment vouches for, an Attestor says who that is.
//
//	evidence.go  Evidence: what was shown, and what the listener saw of the caller
//	identity.go  Identity, Class, Attestor; Personal: kinds that judge ID tokens
//	selector.go  SelectorMatch: is this the sandbox that was registered?
//	registrar.go Registrar: kinds that know which registrations fit too much
//	             Selecting: which selectors a kind can give; Reattester: whether
//	             its evidence can be shown afresh
//	challenge.go Challenger: kinds whose evidence answers a challenge; nonce.go
//	             Nonces: challenges that nobody keeps
//	clientauth.go ClientAuth: kinds whose evidence authenticates OAuth clients
//	config.go    Decode: what a kind reads of the configuration file; see options/
//	watch.go     Watcher: kinds that see a sandbox die
//	cost.go     Costly: what kinds ask before a judgement costs others something
//	trace.go     Step: what was checked, for whoever asks why
//	errors.go    ErrRejected, the fixed set of reasons
//
// Each folder below is one kind: enroll, oidc, and so on. Package all lists
// them; package attesttest is the suite that every kind passes. Packages jose,
// dpop, fetch and options are not kinds but tools, kubetest is for tests.
//
// # What a kind must not do
//
// A kind looks at one piece of evidence and nothing else. The steps that all
// kinds share are done once, by the broker's pipeline, in this order, so that no
// kind can forget one:
//
//  1. Proof of possession: before Attest, the pipeline checks the DPoP proof or
//     the client certificate and fills Evidence.Key. A kind may demand that its
//     evidence names that key (Identity.Key), and never proves the key itself.
//  2. Attest.
//  3. Key binding: Identity.Key, when set, must be Evidence.Key.
//  4. Replay: Identity.ReplayID is claimed for Evidence.Key until ReplayUntil.
//     The first use binds the key: later uses with the same key are allowed
//     (workload tokens are legitimately cached and reused), uses with another
//     key are refused.
//  5. SelectorMatch against what the runner registered for the task.
package attest
