// Command ebb is the broker, its command-line client and its guided tour, in one
// binary.
//
//	main.go cli.go fail.go input.go one.go   the command tree, code shared by commands, exit codes
//	wire.go                           builds the object graph of the server, bottom to top
//	  wire_console.go data.go door.go tls.go stores.go kinds.go ssh.go local.go policies.go egress.go   its parts
//	node.go                           the running server and its orderly stop
//	serve.go collector.go log.go loglines.go logdraw.go tracing.go   ebb serve; resolve.go  its --resolve
//	embed.go                          an ebb inside of another command
//
// One file a command, named after it: task.go (and task_end.go, receipt.go), token.go (and token_enrol.go), credential.go (and credential_ssh.go), mcp.go (and mcp_http.go), delegate.go,
// hold.go, attest.go (and attest_challenge.go), console.go, notify.go, run.go (and run_box.go, run_kind.go, run_user.go, run_env.go, run_watch.go, run_out.go, run_aws.go, run_pg.go, run_ssh.go, run_join.go, run_dir.go, run_guard.go, run_limits.go, run_embed.go, run_end.go, run_uses.go, shim.go), endpoint.go (an egress endpoint that stays open while ebb restarts), egress_far.go (ebb egress; and egress_place.go), requests.go (and requests_risk.go, browser.go), breakglass.go, leases.go (and leases_usage.go), providers.go,
// secrets.go, audit.go (and audit_verify.go, audit_loss.go), transcripts.go, policy.go (and policy_try.go, policy_compare.go), keys.go (and keys_revoke.go), config.go,
// migrate.go, doctor.go (and doctor_local.go, doctor_remote.go, doctor_console.go), health.go,
// demo.go (and demo_console.go), version.go.
//
//	../internal/command  exit codes and errors with a next step
//	../internal/config   the configuration: keys, sources, every problem at once
//	../internal/out      output as table, JSON or CSV, with control characters escaped
//	../internal/keyfile  private keys of clients
//	internal/box      starts a command isolated from its machine
//	internal/shim     the first process of a box
//	internal/ask      the protocol by which a process in a box requests credentials
//	internal/awskeys  credentials in the formats of AWS clients
//	internal/sshagent the SSH agent, which keeps the private keys of certificates
//	internal/mcp      ebb as tools of MCP clients
//	internal/stdio    the standard streams of a box
//	internal/demo     the guided tour
//	internal/history  the history of one working day, for the demo console
//
// Tests of the repository's structure are here too: layers_test.go (which package
// may import which), exits_test.go (which code may read the bytes of a secret),
// script_test.go (txtar scripts against the built binary).
package main
