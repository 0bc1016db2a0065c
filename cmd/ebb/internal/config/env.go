package config

import (
	"slices"
	"strings"
)

// clientVariables configure commands that talk to a server, and tests. They are
// no keys of the configuration and never a typing mistake.
var clientVariables = []string{"EBB_CONFIG", "EBB_URL", "EBB_SOCKET", "EBB_CLIENT_ID", "EBB_KEY_FILE", "EBB_CA_FILE", "EBB_TASK_ID", "EBB_TICKET"}

// Variable is the environment variable of a key: redis.addrs is EBB_REDIS_ADDRS.
func Variable(path string) string {
	return "EBB_" + strings.ToUpper(strings.NewReplacer(".", "_").Replace(path))
}

// environment applies the EBB_ variables, in the order of the table. An empty
// variable is one that is not set, as container tools write it.
func environment(c *Config, environ []string, src map[string]string, ps *Problems) {
	left := map[string]string{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if value != "" && strings.HasPrefix(name, "EBB_") && !strings.HasPrefix(name, "EBB_TEST_") && !slices.Contains(clientVariables, name) {
			left[name] = value
		}
	}
	known := slices.Clone(clientVariables)
	for _, k := range keys {
		name := Variable(k.Path)
		known = append(known, name)
		value, found := left[name]
		if !found {
			continue
		}
		delete(left, name)
		src[k.Path] = name
		r := reader{name: name, problems: ps, src: src}
		to := k.to(c, &r)
		if list, ok := to.(listOf); ok {
			if n := r.document([]byte(value)); n != nil {
				list(k.Path, n)
			}
			continue
		}
		if err := set(to, value); err != nil {
			ps.add(k.Path, name, err.Error(), "change the variable")
		}
	}
	unknown := make([]string, 0, len(left))
	for name := range left {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		ps.add(name, "", "there is no such variable", "unset it; "+near(name, known))
	}
}
