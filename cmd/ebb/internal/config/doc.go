// Package config is ebb's one configuration: what the keys are, where their
// values come from, and everything that can be wrong with them, said at once.
//
//	config.go     Config and its parts: what the rest of the program reads
//	keys.go       the table of keys: name, default, sentence, where it is stored; keys_egress.go  those of egress
//	load.go       Load: defaults, then the file, then EBB_ variables, then Check
//	file.go       the YAML file, strictly: every unknown key is a problem
//	env.go        the EBB_ variables, strictly: every unknown one is a problem
//	near.go       what a misspelt key probably meant
//	value.go      text to value, one function for file and environment
//	check.go      what single values and pairs must fulfil (listen and TLS, limits)
//	console.go    how people sign in to the console
//	egress.go     how sandboxes get out
//	notify.go     where people are told that something waits
//	checklists.go what attestors, providers and principals must fulfil
//	principal.go  principals and their public keys
//	places.go     files and directories that are ebb's alone
//	secret.go     passwords, from a file or the environment only
//	problem.go    Problems: key, place, what is wrong, what to do
//	table.go      the table of keys as text for --help and for README.md
//
// Nothing here opens a socket or a store, so a file can be checked anywhere.
package config
