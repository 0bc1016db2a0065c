package config

// LoadText is Load without a file system, for the fuzzer.
func LoadText(text []byte, environ []string) (Config, error) { return load("f.yaml", text, environ) }

// Keys returns the table of keys.
func Keys() []Key { return keys }
