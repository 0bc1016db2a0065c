package config

// LoadText is Load without a file system, for the fuzzer.
func LoadText(text []byte, environ []string) (Config, error) { return load("f.yaml", text, environ) }

// Keys returns the table of keys.
func Keys() []Key { return keys }

// ClientVariables are the variables of commands that talk to a server.
var ClientVariables = clientVariables

// ServiceLink reports whether a line of the environment is a service link.
func ServiceLink(line string) bool { return serviceLink.MatchString(line) }
