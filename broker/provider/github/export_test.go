package github

// Permissions is the table, for comparison with GitHub's.
func Permissions() map[string][]string {
	out := map[string][]string{}
	for name, p := range permissions {
		out[name] = p.levels
	}
	return out
}
