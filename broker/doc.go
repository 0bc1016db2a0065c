// Package broker is the core: the life of a task, of the requests people decide
// in it, and of the credentials that live and die with it. It knows no SQL, no
// Redis, no HTTP and no SDK; it names what it needs of them:
//
//	ledger.go   Ledger: what is true now (Redis, or memory)
//	journal.go  Journal and Desk: what outlives the process (PostgreSQL, SQLite);
//	            Lane: what is owed at providers; journal_units.go what one unit
//	            does, journal_filters.go what is read,
//	            journal_listing.go what is paged through; statistics.go Statistics: sums
//	            over a window
//	journal_policies.go  PolicyDesk: drafts and releases of policies
//	seal.go     Sealer: revocation handles at rest
//	task.go lease.go request.go service.go   the nouns; ids.go their ids
//	errors.go   Kind, Error and the sentinels of the stores
//	config.go   Config and Provider: what New is given
//	broker.go   New, and the Broker that all of the below belong to;
//	            limits.go what can be asked for; clock.go what time it is
//	providers.go  the providers as clients and operators see them
//	open.go     a task is opened; tend.go  seen alive, paused, resumed, tainted
//	record.go   audit entries, and writing them
//	secrets.go  the operator's secrets, which drivers use
//	policies.go policies are drafted, and published by a second person; policies_try.go
//	            what a draft would decide, policies_replay.go what it would have decided
//	say.go      who has a say in a request: groups, limits, and never one's own;
//	            breakglass.go  who approves alone in an emergency, and for how long, breakglass_end.go how that ends, breakglass_read.go who sees it,
//	            breakglass_plan.go what they prove before, breakglass_alone.go what they may then
//	mark.go     which requests wait, for those who are to be told
//	person.go   people of the console: their sessions on the record, what is spent once
//	trial.go    a provider tried out in a task of its own; trial_steps.go: what is
//	            looked at, and what is said of it
//	metrics.go  metrics_upstream.go those of third parties, metrics_liveness.go those
//	            of watched sandboxes and of judgements
//
// # The walk of one request
//
//	1  ask.go             who asks: evidence, client assertion or own token, ending at
//	                      one task, its one sandbox and one proved key
//	   identify.go        judges evidence, judging.go bounds what that costs others, crowd.go how many requests wait;
//	                      clientauth.go: evidence as client authentication,
//	                      evidence_header.go: in a header, where a platform writes it
//	   bind.go            makes it the task's sandbox; enrol.go gives that one a token
//	                      of its own for the ticket of ticket.go
//	   assertion.go       checks assertions, owntoken.go the broker's own tokens
//	   principal.go       what principals may do; principal_token.go knows them by a
//	                      token and gives it
//	   challenge.go       before that, for evidence that answers one
//	   explain_evidence.go  says to operators how evidence is judged
//	2  admit.go           one round trip to the ledger: the proof is used up, the
//	                      evidence tied to its key, the rate counted, the task read
//	3  token.go target    scopes and resource to one provider; ceiling and parent
//	4  token.go judge     policy: deny, ask or allow
//	5  escalate.go        ask: a grant given before, a cool-down, or a new request; escalate_code.go its code
//	                      on the facts of facts.go, as bad as weigh.go finds them;
//	                      poll.go redeems it, decide.go
//	                      takes people's verdicts on facts that again.go finds to be
//	                      those still; seen.go: what they were shown,
//	                      together.go: several in one answer;
//	                      approval_demands.go: the proofs that an approval needs at its risk
//	                      ground.go: what an approval stands on
//	                      breaker.go pauses who asks too much, held.go is that task as one card
//	   delivery.go        the credential itself, or a placeholder that egress knows
//	6  issue.go frame     what may be issued at most: one function for I4 and I5
//	7  issue.go mint      make durable, meanwhile sign and make live (issue_record.go);
//	                      then answer (I1), or end what nobody got (undelivered.go)
//
// # A mint at a third party
//
// upstream.go holds what this process knows of each such provider, tally.go how much
// is alive there. Step 7 is then mint.go, with mint_outcome.go for what came of it and
// mint_fail.go for all that can go wrong (I3):
//
//	a  upstream.go enter  a place at the provider: its rate, its bound, a fair share
//	b  intend             the intent is durable, and a claim of this process on it
//	c  enliven            the ledger takes the lease: caps, task open, not paused
//	d  call               the driver mints; save makes a handle durable on the way
//	e  outcome            handle sealed, lease live on the record
//	f                     the ledger is asked once more; then the answer
//
// # Delegation
//
//	delegation.go  what may be delegated: one function says it
//	delegate.go    a sandbox asks; what is above bounds, and what is below ends
//
// # The end
//
//	complete.go    the one way a task ends, whoever or whatever ends it
//	owe.go         ends that a store has not taken yet: tried until it has; owe_file.go
//	               keeps them across a kill, reached.go says how far each has got
//	tombs.go       the ends that this process knows of, whatever the ledger says
//	introspect.go  RFC 7662 and RFC 7009
//	use.go         what the egress proxy asks before each request: may this caller use that credential now; reach.go the same of connections; transcript.go what was written down of them, and who reads it
//	sealing.go     leases of what an answer through egress makes
//	use_record.go  what of that is on the record
//	box.go         ways out of sandboxes, as runners ask for them and as the record has them
//	cut.go         what goes on by a task or a lease is told of its end: Cutter
//	lease_end.go   the end of one credential, and of what was narrowed from it
//	run.go         deadlines, heartbeats, owed ends, the feed, checkpoints
//	liveness.go    sandboxes whose end their attestor sees; watched.go  which these are,
//	               sequel.go  what follows; lapse.go  those that did not attest again
//	               in time
//	hold.go        sandboxes whose connection ends; holds.go  the connections of this
//	               process
//	highwater.go   marks outside the database of how far the audit log has come: a database
//	               that lost entries is not served
//	signing_keys.go  each signing key is named on the audit log
//	refill.go      the ledger from the journal: at start and after a loss;
//	               refill_record.go  what only the audit record and requests know;
//	               each.go  everything that a filter finds, page by page
//
// # What is read of it
//
//	read.go           listings, and what policy would say
//	read_list.go      what people page through, and take out as a file; read_tally.go
//	                  what stands above it
//	read_record.go    the record, its checkpoints, the feed; read_check.go  whether the
//	                  record holds together; read_hidden.go  what of it a person does not
//	                  see before giving an answer of their own
//	read_requests.go  requests, and the queue of those that wait; match.go  what people
//	                  call one
//	insights.go       what a window says of people and credentials; usage.go  what was issued
//	                  and what was used of it; answers.go  how long such an answer is kept
//
// # The end at a third party
//
//	lane.go           one lane a provider: claims what is due, never waits for others
//	lane_work.go      one attempt at one lease: what is to be done next, and doing it
//	lane_prove.go     is it dead: probes, the bound, and what a lie changes
//	lane_settle.go    what comes of it: the next attempt, or the end, written down
//	handles.go        revocation handles that no store has taken yet
//	ghosts.go         credentials that came after their record had ended
//	complete_wait.go  the end of a task waits for its lanes
//	proof.go          what is known of it, signed
//	sweep.go          what providers list, compared with the record
//	sweep_orphan.go   what no record knows as alive, taken back
//	owed.go           sums of what is owed: metrics, readiness
//	operate.go        a person's retry, and a person's word that nothing is owed
//	reseal.go         handles and secrets under the newest sealing key
//
// Sub-package pace decides when a provider may be called, receipt is what a signed
// receipt says, transcript keeps what was written down of requests.
//
// # What a crash can leave behind
//
// A token is alive only while the ledger knows its lease and its task is open
// there. Cut the power at any step and one of these holds:
//
//	in ledger, not durable   nobody has the token; the ledger forgets the lease when
//	                         it expires or its task ends
//	durable, not in ledger   the answer never left; a refill makes the lease live
//	                         on the record until it expires, with no holder
//	in ledger, no answer     the same
//	task closed in ledger,   refused everywhere; the next start finds the task
//	not in journal           closed in the ledger and makes it durable
//	task closed in journal,  the caller was not told; the next start closes it in
//	not in ledger            the ledger before the listener opens
//
// With a third party, where what exists does not die with the process:
//
//	a                        nothing
//	b, c: intent, not asked  the claim runs out; a lane revokes by the lease's id,
//	                         which is no error for what never was
//	d: asked, no outcome     the same, with the handle if one was saved: whatever
//	                         the provider made dies
//	e: live, no answer       nobody holds the token; the lease ends with its task or
//	                         its time, and its end is owed then
//	task closed, provider    the leases are revoking in the same unit as the close:
//	not asked                refused here, owed there; a lane takes them
//	claimed, not asked;      the claim runs out and a lane asks again: to revoke what
//	asked, not settled       is revoked is no error
//	accepted, not probed     a lane goes on from there
//	settled                  nothing is owed
package broker
