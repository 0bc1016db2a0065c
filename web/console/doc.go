// Package console is ebb's web console: approvers decide here, auditors look everything
// up. Pages are drawn on the server, forms are plain, and all of it works without
// JavaScript. Nothing is decided here: every handler calls the broker.
//
//	console.go  Config, New, Register; routes.go  every path
//	visit.go    who is here: the session behind the cookies; cookies.go
//	signin.go   sign in and out, by the methods of package signin
//	gate.go     what every form must pass; nonce.go  forms are sent once
//	draw.go     templates; funcs.go what they may call; page.go the frame
//	live.go     server-sent events: how much waits, and which, and that the record goes on;
//	            tail.go the rows that somebody follows then
//	fail.go     errors as pages; headers.go  what every answer has
//	assets.go   style, script and icon, named by their content
//
// One file and one template a page:
//
//	queue.go    requests that wait for a person, of which gist.go keeps what rows say; held.go tasks
//	            that ask too much, as one card
//	request.go  one request, and the forms to decide it; shown.go what it says, as text,
//	            and lines.go of who asks;
//	            sealed.go  the same in the form, so that it is kept as it was; seen.go shows it again
//	together.go a few requests of one task, and one answer
//	decide.go   what comes of a decide form; stepup.go and friction.go what must be proved again for it, at which risk;
//	            changes.go what has changed since somebody looked
//	credentials.go  the list of what was issued; ask.go reads its filter, cursor.go its places, export.go writes it out
//	credential.go   one of them, its life and its end; receipt.go; pager.go  the pages beside a page of a list
//	tasks.go    tasks; task.go  one of them, timeline.go  its life as a picture; sandbox.go what a sandbox proved
//	audit.go    the record; entry.go  one entry, and the chains; entries.go  entries on other pages
//	transcripts.go  what was written down of requests; transcript.go  one of them, as text
//	policy.go   policies in force and what was published; policy_ask.go  what would happen
//	draft.go    a draft of policies: edited by its author, file by file (draft_file.go), published by somebody else;
//	            replay.go  what it would have decided
//	breakglass.go, breakglass_plan.go, breakglass_one.go  who approves alone in an emergency: the banner, the list, how one begins,
//	            what came of it, its review
//	insights.go what a window says of people and credentials; chart/ how that is drawn
//	passkeys.go passkeys: made and removed in the settings; passkeys_ask.go  asked for by the decide forms
//	wishes.go   what a person is told, and when
//	settings.go who am I, how pages look; sessions.go  the browsers in which I am signed in
package console
