// Package config reads and checks ebb's configuration: the keys, the sources of their
// values, and the checks. It reports all problems at once.
//
//	config.go     Config and its parts: the result for the rest of the program
//	keys.go       the table of keys: name, default, description, field; keys_egress.go  those of egress
//	load.go       Load: defaults, then the file, then EBB_ variables, then check
//	file.go       the YAML file, strictly: every unknown key is a problem
//	env.go        the EBB_ variables, strictly: every unknown one is a problem, except Kubernetes service links
//	near.go       suggestions for a misspelt key
//	value.go      converts text to a value, for file and environment
//	check.go      checks of single values and pairs (listen and TLS, limits)
//	console.go    sign-in to the console
//	egress.go     egress of sandboxes
//	notify.go     channels and routes of notifications
//	checklists.go checks of attestors, providers and principals
//	principal.go  principals and their public keys
//	places.go     files and directories that only ebb may access
//	secret.go     passwords, from a file or the environment only
//	problem.go    Problems: key, place, problem, remedy
//	table.go      the table of keys as text for --help and for README.md
//
// The package opens no socket and no database, so a file can be checked on any machine.
package config
