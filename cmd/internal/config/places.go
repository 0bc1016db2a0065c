package config

import "path/filepath"

// Places returns the paths that only ebb may read or write: its data, keys and
// passwords, and the files that decide its behavior. All are absolute.
func (c Config) Places() []string {
	var all []string
	for _, path := range []string{
		c.DataDir, c.Signing.KeysDir, c.PolicyDir, c.ListenUnix, c.TLS.Cert, c.TLS.Key, c.TLS.ClientCA, c.Egress.Dir, c.Egress.CAFile,
		c.databasePasswordFile, c.Redis.passwordFile, c.Redis.sentinelPasswordFile, c.Redis.CAFile, c.Console.OIDC.clientSecretFile,
	} {
		if path == "" {
			continue
		}
		if whole, err := filepath.Abs(path); err == nil { // Abs fails only without a working directory
			all = append(all, whole)
		}
	}
	return all
}
