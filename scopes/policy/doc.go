// Package policy judges one request for scopes: (Query) -> Decision, by Cedar policies. It is pure: no clock, no I/O
// besides the bytes or the fs.FS it is handed. Nothing matching is Deny; what cannot be judged is an error, never Allow.
//
// The files, in the order of the path:
//
//	schema.cedarschema, schema.go  what a policy may name: entities, attributes, context
//	query.go, decision.go          what is asked and answered; wire.go is their stable JSON (the audit log keeps it)
//	load.go, syntax.go, check.go,  text -> Set; every problem of every file is reported at once, with file and line
//	annotations.go
//	request.go                     one scope of a query -> one Cedar request and its entities
//	clause.go, tri.go              policies as three-valued clauses, for scopes that are patterns
//	decide.go                      verdict of each scope, then of the whole; smaller.go finds what to ask instead
//	explain.go                     every policy's verdict and reason, as data; outline.go what each is, for reviewers
//	golden.go, goldenfile.go       `*.test.yaml` beside policies
//	replay.go                      recorded queries against a draft
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
// @max_ttl("10m"), @deliver("egress"). A permit with @ask permits only once people agree; a permit without it that also
// matches wins. Every asked scope is judged alone, and one denied scope denies the whole.
//
// # Patterns
//
// A scope with "*" or "**" stands for many resources or actions, and Cedar judges only one. A policy is therefore judged
// on a pattern in three values: it holds for all that the pattern matches, for none of it, or maybe for some. A permit
// counts only when it holds for all; a forbid counts unless it holds for none; a maybe is never resolved in the asker's
// favour. So `forbid` on a/secret stops an ask for a/**, and a permit for a/x never grants a/*. Only `resource in`,
// `resource ==` and `resource.provider` are understood on patterns; anything else said about the resource (or, for the
// action "*", about the action) is a maybe, in particular `resource.path like`. The rule is sound and not complete: two
// permits that cover a pattern between them do not grant it. A policy can refuse patterns outright by context.wildcard.
// Policies name concrete resources: Ebb::Resource::"a:b/*" is a load error.
package policy
