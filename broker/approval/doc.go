// Package approval holds the requests that wait for people, and people's decisions.
//
// When the policy asks, a request records the facts: scopes, task and risk. Its digest covers
// them. The caller polls with the same key. Each approver decides on the digest that they saw,
// and the decision is refused when the facts have changed (I7). A task's owner and runner
// cannot decide its requests. The fatigue guard throttles tasks that ask too often; break-glass
// lets one named person approve alone for a limited time.
package approval
