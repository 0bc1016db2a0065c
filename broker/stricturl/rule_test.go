package stricturl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// TestEncodedSlash: (E58) some servers read a segment with an encoded slash as several segments. Such
// a path matches only rules that allow encoded slashes, and there it counts as one segment.
//
//ebb:invariant I6 A path with an encoded slash matches only rules that allow encoded slashes
func TestEncodedSlash(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, pattern string
		allowed, want bool
	}{
		{"/npm/@acme%2Ftool", "/npm/*", true, true}, {"/npm/@acme%2ftool", "/npm/**", true, true}, {"/npm/tool", "/npm/*", true, true}, {"/npm/tool", "/npm/*", false, true},
		{"/npm/@acme%2ftool", "/npm/*", false, false}, {"/npm/@acme%2ftool", "/npm/**", false, false}, {"/npm/@acme%2ftool", "/npm/*/tool", true, false}, {"/npm%2fx", "/npm/x", true, false},
	} {
		path, err := stricturl.Path(tt.path, stricturl.PathForm{Slash: true})
		if err != nil {
			t.Fatal(err)
		}
		rule := stricturl.Rule{Methods: []string{"GET"}, Paths: []string{tt.pattern}, EncodedSlash: tt.allowed}
		if got := rule.Covers("GET", path); got != tt.want {
			t.Errorf("%s of %s, allowed %t: %t", tt.path, tt.pattern, tt.allowed, got)
		}
	}
}

// TestWebSocketNeedsGET: a rule that lets requests become WebSockets lets them be GET.
func TestWebSocketNeedsGET(t *testing.T) {
	t.Parallel()
	for methods, wrong := range map[string]bool{"GET": false, "POST GET": false, "POST": true, "PUT HEAD": true} {
		said := 0
		stricturl.Rule{Methods: strings.Fields(methods), Paths: []string{"/v1/live"}, WebSocket: true}.Check("rule", func(string, ...any) { said++ })
		if (said == 1) != wrong {
			t.Errorf("%s: %d problems", methods, said)
		}
	}
}

// TestWebSocketInFIPSMode: there is no SHA-1 for its handshake.
//
//ebb:invariant I6 With `GODEBUG=fips140=only`, a rule that allows WebSockets is refused
func TestWebSocketInFIPSMode(t *testing.T) {
	if !counterpart.FIPSOnly(t) {
		return
	}
	for _, upgrades := range []bool{true, false} {
		var said []string
		stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/v1/live"}, WebSocket: upgrades}.Check("rule", func(format string, a ...any) { said = append(said, fmt.Sprintf(format, a...)) })
		if upgrades != (len(said) == 1 && strings.HasPrefix(said[0], "rule.websocket: a WebSocket needs SHA-1")) || !upgrades && said != nil {
			t.Errorf("websocket: %t: %q", upgrades, said)
		}
	}
}
