package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// links are the variables that Kubernetes sets in each container for the
// Services ebb and ebb-redis.
var links = []string{
	"EBB_SERVICE_HOST=10.96.12.7", "EBB_SERVICE_PORT=8420", "EBB_SERVICE_PORT_HTTPS=8420", "EBB_PORT=tcp://10.96.12.7:8420",
	"EBB_PORT_8420_TCP=tcp://10.96.12.7:8420", "EBB_PORT_8420_TCP_PROTO=tcp", "EBB_PORT_8420_TCP_PORT=8420", "EBB_PORT_8420_TCP_ADDR=10.96.12.7",
	"EBB_PORT_53_UDP=udp://[fd00:10:96::a]:53", "EBB_PORT_53_UDP_ADDR=fd00:10:96::a", "EBB_PORT_1_SCTP_PROTO=sctp",
	"EBB_REDIS_SERVICE_HOST=fd00:10:96::b", "EBB_REDIS_SERVICE_PORT=6379", "EBB_REDIS_PORT=tcp://[fd00:10:96::b]:6379", "EBB_REDIS_PORT_6379_TCP_ADDR=fd00:10:96::b",
}

func TestServiceLinksAreIgnored(t *testing.T) {
	t.Parallel()
	c, err := load(t, "", append([]string{"EBB_DPOP_NONCE=on"}, links...)...)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, line := range links {
		name, _, _ := strings.Cut(line, "=")
		want = append(want, name)
	}
	slices.Sort(want)
	if !slices.Equal(c.ServiceLinks, want) || c.DPoP.Nonce != "on" || len(c.Redis.Addrs) != 0 {
		t.Errorf("ignored %v, want %v; %+v", c.ServiceLinks, want, c)
	}
}

// TestOtherVariablesAreRefused: a variable that a user may have intended is not
// ignored as a service link, also if its name looks like one.
//
//ebb:invariant I6 An `EBB_` environment variable that matches no configuration key is refused, unless Kubernetes sets that name and value for a Service
func TestOtherVariablesAreRefused(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"EBB_PORT=8420", "EBB_PORT=http://10.96.12.7:8420", "EBB_PORT=tcp://ebb.example.com:8420", "EBB_PORT=tcp://10.96.12.7", "EBB_PORT=tcp://10.96.12.7:8420/x",
		"EBB_SERVICE_HOST=ebb.example.com", "EBB_SERVICE_PORT=https", "EBB_SERVICE_PORT_=8420", "EBB_HOST=10.96.12.7", "EBB_SERVICE=10.96.12.7",
		"EBB_PORT_8420_TCP=10.96.12.7:8420", "EBB_PORT_8420_TCP_NAME=x", "EBB_PORT_8420_ICMP_PROTO=icmp", "EBB_PORT_TCP_PORT=8420x", "EBB_REDIS_ADDR=10.96.12.7",
		"EBB_port=tcp://10.96.12.7:8420", "EBB_LISTEN_PORT=8421", "EBB__PORT=8420",
	} {
		c, err := load(t, "", line)
		name, _, _ := strings.Cut(line, "=")
		if got := wrong(t, err); !slices.Equal(got, []string{name}) || len(c.ServiceLinks) != 0 {
			t.Errorf("%s: problems %v, ignored %v", line, got, c.ServiceLinks)
		}
	}
}

// TestNoKeyIsAServiceLink: for no name of a Service does Kubernetes set a
// variable that ebb reads.
func TestNoKeyIsAServiceLink(t *testing.T) {
	t.Parallel()
	names := slices.Clone(config.ClientVariables)
	for _, k := range config.Keys() {
		names = append(names, config.Variable(k.Path))
	}
	for _, name := range names {
		for _, value := range []string{"tcp://10.0.0.1:1", "10.0.0.1", "1", "tcp"} {
			if config.ServiceLink(name + "=" + value) {
				t.Errorf("%s=%s reads as a service link", name, value)
			}
		}
	}
}
