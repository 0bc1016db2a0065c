// Package config reads and checks ebb's configuration: the keys, the sources of their
// values, and the checks. It reports all problems at once.
//
// Config is the result for the rest of the program. The table of keys has the name, default,
// description and field of each key; the help text and the README's table are made from it. Load
// applies the defaults, then the YAML file, then the EBB_ variables, then the passwords, which come
// from a file or the environment only, and checks the result. The file and the environment are read
// strictly: each unknown key or variable is a Problem with a remedy, which suggests the key that
// was probably meant. Variables that Kubernetes sets for services are accepted.
//
// The package opens no socket and no database, so a file can be checked on any machine.
package config
