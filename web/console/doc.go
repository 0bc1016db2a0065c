// Package console is ebb's web console. Approvers decide requests in it, and
// auditors read the audit log. Pages are rendered on the server, forms are
// plain HTML, and everything works without JavaScript. The console decides
// nothing: every handler calls the broker.
//
//	console.go  Config, New, Register; routes.go  every path
//	visit.go    the visitor: the session behind the cookies; cookies.go
//	signin.go   sign-in and sign-out, by the methods of package signin
//	gate.go     checks that every form must pass; nonce.go  forms are sent once
//	draw.go     templates; funcs.go their functions; page.go the frame of a page
//	live.go     server-sent events: the waiting requests, and that the audit log
//	            has grown; tail.go the new rows of a list that follows them
//	fail.go     errors as pages; headers.go  headers of every response
//	assets.go   style sheet, script and icon, named by their hash
//
// One file and one template a page:
//
//	queue.go    waiting requests, summarised by gist.go; held.go throttled
//	            tasks, one card each
//	request.go  one request, and the forms to decide it; shown.go the request
//	            as text, lines.go the part about its task and sandbox;
//	            sealed.go the evidence snapshot in the form; seen.go shows it again
//	together.go a batch decision: a few requests of one task, one answer
//	decide.go   the decide form; stepup.go and friction.go the proofs that
//	            each risk level needs; changes.go facts that have changed
//	credentials.go  the list of credentials; ask.go reads its filter,
//	            cursor.go its position, export.go exports it
//	credential.go   one credential; receipt.go; pager.go  links between pages
//	tasks.go    tasks; task.go  one task, timeline.go its chart; sandbox.go
//	            the evidence of a sandbox
//	audit.go    the audit log; entry.go  one entry, and the chains; entries.go
//	            entries on other pages
//	transcripts.go  recorded requests; transcript.go  one of them
//	policy.go   policies in force and releases; policy_ask.go  test a request
//	draft.go    a draft of policies: its author edits it file by file
//	            (draft_file.go), a second person publishes it; replay.go
//	            decides past requests by it
//	breakglass.go, breakglass_plan.go, breakglass_one.go  break-glass: the
//	            banner and list, starting a period, one period and its review
//	insights.go statistics of approvals and credentials; chart/ their charts
//	passkeys.go passkeys in the settings; passkeys_ask.go  in decide forms
//	wishes.go   notification preferences
//	settings.go the person, and how pages look; sessions.go  their sessions
package console
