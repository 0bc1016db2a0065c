// Package liveness detects whether sandboxes still run, and acts when they do not.
//
// There are three sources: the runner's heartbeats, an attestor that watches the sandbox, and a
// control connection that the sandbox keeps open. The action after an exit is a setting of the
// attestor: complete, pause or nothing. The package also pauses, resumes and taints tasks.
package liveness
