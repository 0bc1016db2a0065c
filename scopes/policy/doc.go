// Package policy decides requests for scopes by Cedar policies: (Query) -> Decision. It is pure: no clock, no I/O besides
// the given bytes or fs.FS. If no policy applies, the result is Deny; a failed evaluation is an error, never Allow.
//
// The files, in the order of the path:
//
//	schema.cedarschema, schema.go  the entities, attributes and context that a policy may name
//	query.go, decision.go          input and result; wire.go is their stable JSON (stored in the audit log)
//	load.go, syntax.go, check.go,  text -> Set; every problem of every file is reported at once, with file and line
//	annotations.go, position.go
//	request.go                     one scope of a query -> one Cedar request and its entities
//	clause.go, tri.go              policies as three-valued clauses, for scopes that are patterns
//	decide.go                      verdict of each scope, then the decision; smaller.go suggests a smaller request
//	explain.go                     every policy's verdict and reason, as data; outline.go describes each policy for reviewers
//	golden.go, goldenfile.go       `*.test.yaml` beside policies
//	permit.go                      one decided request -> the text of a policy that permits exactly it
//	replay.go                      recorded queries against a draft, and the differences as sentences
//	live.go                        the Set in force, replaced whole
//	starter.go, starter/           the built-in policy
//
// # Writing policies
//
//	@id("ci-reads-orders") @max_ttl("10m")
//	permit (
//	  principal in Ebb::Attestor::"github",
//	  action in [Ebb::Action::"read", Ebb::Action::"list"],
//	  resource in Ebb::Resource::"orders:eu"
//	) when { context.task.kind == "report" };
//
// The principal is the attested sandbox, the action is the scope's action, the resource is the scope's provider and path.
// `resource in` reaches the named resource and everything below it; `resource in Ebb::Provider::"orders"` all of a
// provider. The action of a scope is open-ended, so a policy may name any action that the scope grammar has: Load declares
// it. A misspelt action or path is therefore not an error; a golden test finds it.
//
// Annotations: @id (required, unique) and @why on any policy; on a permit also @ask("group,group"), @quorum("2"),
// @max_ttl("10m"), @max_amount("EUR 50"), @deliver("egress"). A permit with @ask permits only after approval; a permit
// without it that also applies takes precedence. Every requested scope is evaluated alone, and one denied scope denies
// the whole request.
//
// # Patterns
//
// A scope with "*" or "**" stands for many resources or actions, and Cedar evaluates only one. A policy has therefore one
// of three values on a pattern: it applies to all scopes that the pattern matches, to none of them, or maybe to some. A
// permit counts only when it applies to all; a forbid counts unless it applies to none; a maybe never favours the caller.
// So `forbid` on a/secret stops a request for a/**, and a permit for a/x never grants a/*. Only `resource in`,
// `resource ==` and `resource.provider` are supported on patterns; any other condition on the resource (or, for the
// action "*", on the action) is a maybe, in particular `resource.path like`. The rule is sound and not complete: two
// permits that together cover a pattern do not grant it. A policy can refuse patterns outright by context.wildcard.
// Policies name concrete resources: Ebb::Resource::"a:b/*" is a load error.
package policy
