package config

import (
	"regexp"
	"slices"
	"strings"
)

// clientVariables configure client commands and tests. They are not keys of the
// configuration and never reported as unknown.
var clientVariables = []string{"EBB_CONFIG", "EBB_URL", "EBB_SOCKET", "EBB_CLIENT_ID", "EBB_KEY_FILE", "EBB_CA_FILE", "EBB_TASK_ID", "EBB_TICKET"}

// serviceLink matches a variable that Kubernetes sets in each container of a
// namespace for a Service named ebb or ebb-SOMETHING (kubelet's
// envvars.FromServices). Both name and value must have the form: EBB_PORT=8420
// is a mistake and must be reported.
var serviceLink = regexp.MustCompile(`^EBB(?:_[A-Z0-9][A-Z0-9_]*)?_(?:` +
	`SERVICE_HOST=(?:` + ip4 + `|` + ip6 + `)|` +
	`SERVICE_PORT(?:_[A-Z0-9][A-Z0-9_]*)?=[0-9]{1,5}|` +
	`PORT(?:_[0-9]+_(?:TCP|UDP|SCTP))?=(?:tcp|udp|sctp)://(?:` + ip4 + `|\[` + ip6 + `\]):[0-9]{1,5}|` +
	`PORT_[0-9]+_(?:TCP|UDP|SCTP)_PROTO=(?:tcp|udp|sctp)|` +
	`PORT_[0-9]+_(?:TCP|UDP|SCTP)_PORT=[0-9]{1,5}|` +
	`PORT_[0-9]+_(?:TCP|UDP|SCTP)_ADDR=(?:` + ip4 + `|` + ip6 + `))$`)

const (
	ip4 = `[0-9]{1,3}(?:\.[0-9]{1,3}){3}`
	ip6 = `[0-9a-f]*:[0-9a-f:]*`
)

// Variable is the environment variable of a key: redis.addrs is EBB_REDIS_ADDRS.
func Variable(path string) string {
	return "EBB_" + strings.ToUpper(strings.NewReplacer(".", "_").Replace(path))
}

// environment applies the EBB_ variables, in the order of the table. An empty
// variable counts as not set, because container tools pass empty variables.
// Service links of Kubernetes are ignored.
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
	for name, value := range left {
		if serviceLink.MatchString(name + "=" + value) {
			c.ServiceLinks = append(c.ServiceLinks, name)
		} else {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(c.ServiceLinks)
	slices.Sort(unknown)
	for _, name := range unknown {
		ps.add(name, "", "there is no such variable", "unset it; "+near(name, known))
	}
}
