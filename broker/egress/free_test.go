package egress_test

import (
	"strings"
	"testing"
)

// The requests of a sandbox for its description are limited, for each sandbox separately.
//
//ebb:invariant I12 The rate at which a sandbox can request its own description from its egress endpoint is limited
func TestSandboxAsksWhatItIs(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x, other := b.sandbox(t), b.sandbox(t)
	const ask = "GET /sandbox HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n"
	for told := 0; ; told++ {
		out := raw(t, x, ask)
		if strings.HasPrefix(out, "HTTP/1.1 429") && strings.Contains(out, "rate_limited") {
			if told < 30 {
				t.Errorf("told %d times", told)
			}
			break
		}
		if !strings.HasPrefix(out, "HTTP/1.1 200") || told > 5000 {
			t.Fatalf("told %d times: %q", told, out)
		}
	}
	if out := raw(t, other, ask); !strings.HasPrefix(out, "HTTP/1.1 200") {
		t.Errorf("another sandbox: %q", out)
	}
}

// E77: lookups of unknown placeholders are limited. This does not affect the sandbox's valid
// placeholders, and refusals do not fill the log.
//
//ebb:invariant I12 The rate at which a sandbox can cause lookups of placeholders that it does not own is limited
//ebb:invariant I12 The rate of log lines about refusals of a sandbox's requests is limited
func TestUnknownPlaceholders(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	p, c := x.placeholder(t, "stripe:charges:read"), x.client(t, true)
	own := func() {
		t.Helper()
		if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != 200 {
			t.Fatalf("its own: %s %q", res.Status, body)
		}
	}
	own()
	lines := func() int { return strings.Count(b.log.String(), "egress refused") }
	unknown, refused := 0, 0
	for ; refused == 0 || lines() > refused+unknown-10; refused++ {
		if refused > 2000 {
			t.Fatalf("%d lines about %d refusals", lines(), refused+unknown)
		}
		for {
			res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+guess(t, p, unknown))
			if res.StatusCode == 429 {
				break
			}
			if unknown++; res.StatusCode != 401 || unknown > 5000 {
				t.Fatalf("%d: %s %q", unknown, res.Status, body)
			}
		}
	}
	if unknown < 50 {
		t.Errorf("%d were looked up", unknown)
	}
	own()
}
