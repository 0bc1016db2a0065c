// Package proof asks people on the console to prove who they are before an answer counts.
//
// The risk of a request decides which proof an approval needs (demand.go). A page shows it with
// Proofs.Demand. A form hands its answer to Proofs.StepUp (stepup.go), which accepts a signature by
// a passkey over this answer (passkeys.go), or a sign-in within the last 10 minutes. The areas that
// take answers call it: requests, policies and break-glass. Check verifies stored signatures again,
// for pages that show past answers.
package proof
